import type { RecycleReason, Stream } from '../../base/events/event-map.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { PausedPair } from '../../base/task/pause.js'
import type { Ref } from '../../base/task/ref.js'
import type { BegunTask, ClaimNotice, Report, RunEnd } from '../../base/task/report.js'
import type { SignalNews } from '../../base/task/schedule.js'
import type { Delivery, RetryPolicy, SlotNews } from '../../base/task/terms.js'
import type { PackedReports } from './reports.js'

/** Everything a worker needs to know. Sent once, as the first message. */
export interface WorkerOptions {
  /** What its claims are known by, if it dies; no other worker has it. Absent: nothing knows them. */
  readonly identity?: string
  /** The spool's real path. */
  readonly spool: string
  readonly ordered: boolean
  readonly strictNames: boolean
  readonly frequencyMs: number
  readonly locks: 'ofd' | 'lockfile'
  readonly policy: RetryPolicy
  readonly delivery: Delivery
  /** How long a malformed or incomplete file is left alone before it is buried. */
  readonly graceMs: number
  /** The handlers, tried in turn until one returns something other than SPOOL_IGNORE. */
  readonly chain: readonly HandlerSpec[]
  /**
   * Where handlers may store tasks; the first one is the default. With `sync` a task is on disk before it counts as
   * stored.
   */
  readonly targets: ReadonlyArray<{ readonly directory: string; readonly sync: boolean }>
  /** Where handlers' named tasks go that name a queue: real paths. */
  readonly queues: ReadonlyArray<readonly [queue: string, directory: string]>
  /** The queues that another daemon has, with its address. */
  readonly sockets?: ReadonlyArray<readonly [queue: string, address: string]>
  /** Of the application: comes before the names of tasks whose registry has none. */
  readonly namespace?: string
  /** How many tasks it runs at a time. */
  readonly concurrency: number
  /** Others of its pool run tasks in the same process, and would die with it. */
  readonly sharesProcess?: boolean
  /** 0: no limit. */
  readonly maxTasks: number
  /** `reload-on-rss`, `reload-on-as`: with its interpreters and programs; after a task, once the process is `minAgeMs` old. 0: no limit. */
  readonly memory: { readonly rssBytes: number; readonly vszBytes: number; readonly minAgeMs: number }
  /** The run of a signal's handler counts towards `maxTasks`. */
  readonly signalAsTask: boolean
  /** 0: no deadline. */
  readonly harakiriMs: number
  /** How long it may take to become ready, and an interpreter that replaces a dead one; 0: no limit. */
  readonly startTimeoutMs: number
  /** Entered before each task; null: the directory that holds the task. */
  readonly chdir: string | null
  readonly title: string | null
  /** The directory of the application whose worker it is, where handlers are loaded; absent: a daemon's, which loads them in the spool. */
  readonly application?: string
  /** There is a listener for single tasks, so even those that ended with SPOOL_OK are reported one by one. */
  readonly isListenedTo: boolean
  /** The keys whose values are in no report (`spooler-hide`). */
  readonly hide: readonly string[]
  /** Reports include the number of the attempt and how long the task waited. */
  readonly isDetailed: boolean
}

export type HandlerSpec =
  | { readonly kind: 'javascript'; readonly file: string }
  | { readonly kind: 'host'; readonly host: HostOptions }
  /** What the program has loaded that the worker is part of. `names`: for people */
  | { readonly kind: 'given'; readonly names: readonly string[] }
  /** Passes tasks on to a spool, which is called by its name. */
  | { readonly kind: 'forward'; readonly to: string }
  | { readonly kind: 'exec'; readonly command: string; readonly input: 'json' | 'packet' }

/**
 * A worker has standard input, output, error and the socket of its messages. The descriptors of the shared memory areas follow.
 */
export const FIRST_AREA_FD = 4

/** The first message of a thread: from then on it may be ended. */
export const THREAD_IS_UP = 'up'

/** An interpreter process that a worker keeps for the handlers of one language. */
export interface HostOptions {
  readonly language: 'Python' | 'Perl' | 'Ruby'
  readonly command: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** The directory in which it starts and loads, whatever directory its worker is in by then. */
  readonly home: string
  /**
   * How many shared memory areas it has in common with the hosts of other workers. The worker passes on their
   * descriptors.
   */
  readonly areas: number
  /** What it loads, for messages to people. */
  readonly files: readonly string[]
  /** Its first input, byte strings; names may repeat. */
  readonly settings: ReadonlyArray<readonly [name: string, value: string]>
}

/** Master to worker. The refs of one worker are numbered from 0 in the order in which they are given. */
export type MasterMessage =
  | { readonly type: 'open'; readonly options: WorkerOptions }
  /** Instead of `open`; nothing is run. The answer is `done-aside`, with `PastSettled`. */
  | AfterKill
  /** To a process aside: what it does is in engines/directory/aside-work.ts. The answer is `done-aside`. */
  | {
      readonly type: 'do-aside'
      readonly id: number
      readonly name: string
      readonly spool: string
      readonly args: readonly unknown[]
    }
  | ({ readonly type: 'run' } & GivenRun)
  /** Its handler runs as soon as there is a free slot. */
  | { readonly type: 'signal'; readonly number: number }
  /** The answer to the question with this id: values, or an error. */
  | {
      readonly type: 'answer'
      readonly id: number
      readonly values: readonly string[]
      readonly error?: string
    }
  /** People want this task to end. The worker answers with `cancelling`, and the run becomes a dead letter unless it is done. */
  | { readonly type: 'cancel'; readonly number: number }
  /** Drop the tasks that are not started; they go to other workers. The worker answers with `recalled`. */
  | { readonly type: 'recall' }
  /** Tasks with one of these pairs are not to be started: report them as parked. Replaces the previous ones. */
  | { readonly type: 'pause'; readonly pairs: readonly PausedPair[] }
  /** From now on, tell of each run of a named task when it begins and when it ends; or no longer. */
  | { readonly type: 'follow'; readonly isOn: boolean }
  /** Hand back what is not started, finish what runs, exit. The worker is killed after `mercyMs`. */
  | { readonly type: 'drain'; readonly mercyMs: number }

/**
 * Tasks that a worker is to run. `lastRuns`: how the last run was cut short, for those refs where it was, by their index. `sentAtMs`: by
 * `machineNowMs`, so that a worker that was stopped or blocked meanwhile reads what came after before it starts.
 */
export interface GivenRun {
  readonly first: number
  readonly refs: readonly Ref[]
  readonly sentAtMs: number
  readonly lastRuns?: LastRuns
  readonly slots?: SlotNews
  /** It is the turn of these although they have crashed; others that have are parked. */
  readonly isTheirTurn?: true
}

export type LastRuns = ReadonlyArray<readonly [place: number, lastRun: LastRun]>

/** Worker to master. */
export type WorkerMessage =
  /** What it is loading now, for messages to people. */
  | { readonly type: 'loading'; readonly name: string }
  /**
   * `news`: what the handlers declared about signals and periodic tasks while they were loaded. `concurrency`: how many tasks it runs at
   * a time.
   */
  | { readonly type: 'ready'; readonly news: readonly SignalNews[]; readonly concurrency: number }
  | { readonly type: 'unloadable'; readonly error: string }
  | PackedReports
  /** The run of this task has ended, and storing that takes long: no deadline of the run counts any more. */
  | { readonly type: 'settling'; readonly number: number }
  /** Tasks that it has claimed and begins next, by number; only those whose claims have a notice. */
  | {
      readonly type: 'claimed'
      readonly claims: ReadonlyArray<readonly [number: number, notice: ClaimNotice]>
    }
  /** To whoever follows, right before the function is called. */
  | { readonly type: 'run-began'; readonly number: number; readonly task: BegunTask }
  /** When it is settled. */
  | { readonly type: 'run-ended'; readonly number: number; readonly end: RunEnd }
  /** An earlier run of a task that it has claimed ended by the death of its process, which counts. */
  | { readonly type: 'run-died'; readonly task: BegunTask; readonly end: RunEnd }
  | { readonly type: 'signal-news'; readonly news: SignalNews }
  | { readonly type: 'signal-started'; readonly number: number }
  | { readonly type: 'signal-ended'; readonly number: number; readonly error?: string }
  /** It was not started, and will not be by this worker. */
  | { readonly type: 'signal-returned'; readonly number: number }
  | { readonly type: 'recycling'; readonly because: RecycleReason }
  /** An exception was thrown outside any handler's call. The worker finishes what it can and exits. */
  | { readonly type: 'faulted'; readonly error: string }
  /**
   * It can run no more tasks: it is out of descriptors, memory or locks, or its interpreter keeps dying at once. The
   * tasks that it was given are untouched. It finishes what runs and exits.
   */
  | { readonly type: 'unfit'; readonly error: string }
  /**
   * What a cancel has met. `hasBegun`: it will be reported when it ends; else it was handed back, or was reported before.
   * `isProgram`: the worker ends it in any case.
   */
  | {
      readonly type: 'cancelling'
      readonly number: number
      readonly hasBegun: boolean
      readonly isProgram: boolean
    }
  /** The tasks that had not started were dropped or handed back. `begun`: the numbers of those that will still be reported. */
  | { readonly type: 'recalled'; readonly begun: readonly number[] }
  | { readonly type: 'log'; readonly name: string; readonly message: string; readonly stream?: Stream }
  /** Printed text, in pieces as they came. `number`: the task that printed it; null: unknown. */
  | {
      readonly type: 'output'
      readonly number: number | null
      readonly stream: Stream
      readonly text: string
    }
  /** The interpreter that it sends tasks to from now on has its page here (runtime/ipc/host-page.ts). */
  | { readonly type: 'host-page'; readonly fd: number }
  /** An interpreter died; `detail` says which one and how. A replacement is being started. */
  | { readonly type: 'host-died'; readonly detail: string }
  /** The replacement accepts tasks. */
  | { readonly type: 'host-revived' }
  /** A question of a handler to the master. Bytes are encoded as latin1. */
  | { readonly type: 'ask'; readonly id: number; readonly name: string; readonly values: readonly string[] }
  /** A new deadline for the running task, counted from now; 0: only the general one applies. */
  | { readonly type: 'deadline'; readonly afterMs: number }
  /** A process to be killed, with its process group, if the worker dies. */
  | { readonly type: 'child-started'; readonly pid: number }
  | { readonly type: 'child-ended'; readonly pid: number }
  /** A handler stored tasks. */
  | { readonly type: 'stored'; readonly tasks: readonly StoredTask[] }
  /** The last message of a worker that exits on purpose. */
  | { readonly type: 'drained' }
  /** The result of what was asked aside, or why there is none. */
  | {
      readonly type: 'done-aside'
      readonly id: number
      readonly value?: unknown
      readonly error?: string
    }

interface StoredTask {
  readonly path: string
  readonly bytes: number
}

/** A task that a worker had; `lastRun` says when. */
export interface MarkedRef {
  readonly ref: Ref
  readonly lastRun: LastRun
}

/**
 * Settles what was left of runs whose process was ended in their middle, as `lastRun` says: the mark of a task that is blameless is
 * cleared, as if that run had not taken place, and one that was cancelled is buried. A task without such a mark was settled in time, or
 * had not begun: it is left as it is.
 */
export interface AfterKill {
  readonly type: 'after-kill'
  readonly id: number
  readonly options: WorkerOptions
  readonly tasks: readonly MarkedRef[]
}

/** The result of `after-kill`, for each task: what has become of it, or what it is held up by; null: it has no such mark, and may run. */
export type PastSettled = ReadonlyArray<Report | null>

/** What whoever follows is told of single runs. */
export type RunNews = Extract<WorkerMessage, { type: `run-${string}` }>
export type SignalMessage = Extract<WorkerMessage, { type: `signal-${string}` }>
