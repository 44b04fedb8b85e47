import type { RecycleReason, Stream } from '../../base/events/event-map.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { PausedPair } from '../../base/task/pause.js'
import type { Ref } from '../../base/task/ref.js'
import type { BegunTask, ClaimNotice, RunEnd } from '../../base/task/report.js'
import type { SignalNews } from '../../base/task/schedule.js'
import type { Delivery, RetryPolicy, SlotNews } from '../../base/task/terms.js'
import type { PackedReports } from './reports.js'

/** Everything a worker needs to know. Sent once, as the first message. */
export interface WorkerOptions {
  /** By this text, which no other worker has, the worker's claims are found if it dies. Absent: they cannot be found. */
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
  /** What the hosts of all spools are told, besides their own settings. Absent: no handler is in a host. */
  readonly hostSettings?: HostOptions['settings']
  /**
   * Where handlers may store tasks; the first one is the default. With `sync` a task is on disk before it counts as
   * stored.
   */
  readonly targets: ReadonlyArray<{ readonly directory: string; readonly sync: boolean }>
  /** The real paths of the spools to which handlers' named tasks go that name a queue. */
  readonly queues: ReadonlyArray<readonly [queue: string, directory: string]>
  /** The queues of other daemons, with the address of the daemon. */
  readonly sockets?: ReadonlyArray<readonly [queue: string, address: string]>
  /** The namespace of the application. It comes before the names of tasks whose registry has none. */
  readonly namespace?: string
  /** How many tasks the worker runs at a time. */
  readonly concurrency: number
  /** True if other workers of the pool run tasks in the same process, so that they would die with it. */
  readonly sharesProcess?: boolean
  /** 0: no limit. */
  readonly maxTasks: number
  /**
   * `reload-on-rss`, `reload-on-as`: the limits of the worker with its interpreters and programs; 0: no limit. They are checked
   * after a task, once the process is `minAgeMs` old.
   */
  readonly memory: { readonly rssBytes: number; readonly vszBytes: number; readonly minAgeMs: number }
  /** True if the run of a signal's handler counts towards `maxTasks`. */
  readonly signalAsTask: boolean
  /** 0: no deadline. */
  readonly harakiriMs: number
  /** How long the worker, or an interpreter that replaces a dead one, may take to become ready; 0: no limit. */
  readonly startTimeoutMs: number
  /** The directory that is entered before each task; null: the directory that holds the task. */
  readonly chdir: string | null
  readonly title: string | null
  /** The directory of the worker's application, where handlers are loaded. Absent: a daemon's worker loads them in the spool. */
  readonly application?: string
  /** True if somebody listens for single tasks, so that even those that ended with SPOOL_OK are reported one by one. */
  readonly isListenedTo: boolean
  /** The keys whose values appear in no report (`spooler-hide`). */
  readonly hide: readonly string[]
  /** True if reports include the number of the attempt and how long the task waited. */
  readonly isDetailed: boolean
}

export type HandlerSpec =
  | { readonly kind: 'javascript'; readonly file: string }
  | { readonly kind: 'host'; readonly host: HostOptions }
  /** Handlers that the program of which the worker is a part has loaded. `names`: for people. */
  | { readonly kind: 'given'; readonly names: readonly string[] }
  /** Passes tasks on to the spool with this name. */
  | { readonly kind: 'forward'; readonly to: string }
  | { readonly kind: 'exec'; readonly command: string; readonly input: 'json' | 'packet' }

/**
 * A worker has standard input, output, error, the socket of its messages, and the marks of its tasks (ipc/marks.ts). The
 * descriptors of the shared memory areas follow.
 */
export const MARKS_FD = 4
export const FIRST_AREA_FD = 5

/** The first message of a thread. The thread must not be ended before it. */
export const THREAD_IS_UP = 'up'

/** An interpreter process that a worker keeps for the handlers of one language. */
export interface HostOptions {
  readonly language: 'Python' | 'Perl' | 'Ruby'
  readonly command: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** The directory in which the host starts and loads, whatever directory its worker is in by then. */
  readonly home: string
  /**
   * How many shared memory areas the host has in common with the hosts of other workers. The worker passes on their
   * descriptors.
   */
  readonly areas: number
  /** The files that the host loads, for messages to people. */
  readonly files: readonly string[]
  /** The first input of the host, as byte strings. Names may repeat. */
  readonly settings: ReadonlyArray<readonly [name: string, value: string]>
}

/** Messages from master to worker. The refs of one worker have rising numbers in the order in which they are given. */
export type MasterMessage =
  | { readonly type: 'open'; readonly options: WorkerOptions }
  | DoAside
  | ({ readonly type: 'run' } & GivenRun)
  /** Asks the worker to run the handler of this signal as soon as one of its `concurrency` places is free. */
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
  /** Hand back what is not started, as far as the master has not withdrawn it (ipc/marks.ts). The worker answers with `recalled`. */
  | { readonly type: 'recall' }
  /** Tasks with one of these pairs are not to be started: report them as parked. Replaces the previous ones. */
  | { readonly type: 'pause'; readonly pairs: readonly PausedPair[] }
  /** Asks for news of each run of a named task when it begins and when it ends, or for no more such news. */
  | { readonly type: 'follow'; readonly isOn: boolean }
  /** Hand back what is not started, finish what runs, exit. The worker is killed after `mercyMs`. */
  | { readonly type: 'drain'; readonly mercyMs: number }

/**
 * Tasks that a worker is to run. `numbers`: pairs of a first number and a count. `lastRuns`: how the last run was cut short, by the
 * index of the ref, for refs whose run was.
 */
export interface GivenRun {
  readonly numbers: readonly number[]
  readonly refs: readonly Ref[]
  readonly lastRuns?: LastRuns
  readonly slots?: SlotNews
  /** Present if these tasks may run although they have crashed. Other tasks that have crashed are parked. */
  readonly isTheirTurn?: true
}

export type LastRuns = ReadonlyArray<readonly [place: number, lastRun: LastRun]>

/** Messages from worker to master. */
export type WorkerMessage =
  /** The worker is loading this now, for messages to people. */
  | { readonly type: 'loading'; readonly name: string }
  /**
   * The worker is ready. `news`: what the handlers declared about signals and periodic tasks while they were loaded.
   * `concurrency`: how many tasks the worker runs at a time.
   */
  | { readonly type: 'ready'; readonly news: readonly SignalNews[]; readonly concurrency: number }
  | { readonly type: 'unloadable'; readonly error: string }
  | PackedReports
  /** Tasks that the worker has claimed and begins next, by number. Only claims that have a notice are sent. */
  | {
      readonly type: 'claimed'
      readonly claims: ReadonlyArray<readonly [number: number, notice: ClaimNotice]>
    }
  /** Sent if the master follows runs, right before the function is called. */
  | { readonly type: 'run-began'; readonly number: number; readonly task: BegunTask }
  /** Sent when a run is settled whose beginning was told. */
  | { readonly type: 'run-ended'; readonly number: number; readonly task: BegunTask; readonly end: RunEnd }
  /** An earlier run of a task that the worker has claimed ended with the death of its process, and that counts as a crash. */
  | { readonly type: 'run-died'; readonly task: BegunTask; readonly end: RunEnd }
  | { readonly type: 'signal-news'; readonly news: SignalNews }
  | { readonly type: 'signal-started'; readonly number: number }
  | { readonly type: 'signal-ended'; readonly number: number; readonly error?: string }
  /** The signal's handler was not started, and this worker will not start it. */
  | { readonly type: 'signal-returned'; readonly number: number }
  | { readonly type: 'recycling'; readonly because: RecycleReason }
  /** An exception was thrown outside any handler's call. The worker finishes what it can and exits. */
  | { readonly type: 'faulted'; readonly error: string }
  /**
   * The worker can run no more tasks: it is out of descriptors, memory or locks, or its interpreter keeps dying at once. It hands
   * back the tasks that have not begun, finishes what runs, and exits.
   */
  | { readonly type: 'unfit'; readonly error: string }
  /**
   * The state of a task that people have cancelled. `hasBegun`: true if the task will be reported when it ends; else it was
   * handed back, or was reported before. `isProgram`: true if a program runs for the task, which the worker ends in any case.
   */
  | {
      readonly type: 'cancelling'
      readonly number: number
      readonly hasBegun: boolean
      readonly isProgram: boolean
    }
  /** What had not started was handed back. */
  | { readonly type: 'recalled' }
  | { readonly type: 'log'; readonly name: string; readonly message: string; readonly stream?: Stream }
  /** Printed text, in the pieces in which it came. `number`: the task that printed it; null: unknown. */
  | {
      readonly type: 'output'
      readonly number: number | null
      readonly stream: Stream
      readonly text: string
    }
  /** The descriptor of the page (runtime/ipc/host-page.ts) of the interpreter to which the worker sends tasks from now on. */
  | { readonly type: 'host-page'; readonly fd: number }
  /** An interpreter died; `detail` says which one and how. A replacement is being started. */
  | { readonly type: 'host-died'; readonly detail: string }
  /** The replacement accepts tasks. */
  | { readonly type: 'host-revived' }
  /** A question of a handler to the master. Bytes are encoded as latin1. */
  | { readonly type: 'ask'; readonly id: number; readonly name: string; readonly values: readonly string[] }
  /** The first deadline that running tasks have set themselves, in ms from now; 0: only the general deadline applies. */
  | { readonly type: 'deadline'; readonly afterMs: number }
  /** The master is to kill this process, with its process group, if the worker dies. */
  | { readonly type: 'child-started'; readonly pid: number }
  | { readonly type: 'child-ended'; readonly pid: number }
  /** A handler stored tasks. */
  | { readonly type: 'stored'; readonly tasks: readonly StoredTask[] }
  /** The last message of a worker that exits on purpose. */
  | { readonly type: 'drained' }
  /** The result of a question to a process aside, or why there is none. */
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

/** A task that a worker had. `lastRun` says when, and how its run was cut short. */
export interface MarkedRef {
  readonly ref: Ref
  readonly lastRun: LastRun
}

/**
 * To a process that runs no task: asks for SETTLE_PAST, or for one of the actions in engines/directory/aside-work.ts. The answer is
 * `done-aside`.
 */
export interface DoAside {
  readonly type: 'do-aside'
  readonly id: number
  readonly name: string
  readonly spool: string
  readonly args: readonly unknown[]
}

/**
 * Settles the runs of tasks that were cut short because their process was ended, as `lastRun` says. A blameless task loses its
 * mark, as if the run had not taken place. A cancelled task is buried. A task without such a mark was settled in time, or had not
 * begun: it is left as it is. The arguments are `WorkerOptions` and the list of `MarkedRef`. The result for each task is what has
 * become of it, or what holds it up (`Report`); null: it has no such mark, and may run.
 */
export const SETTLE_PAST = 'settle-past'

/** News of single runs, for those who follow them. */
export type RunNews = Extract<WorkerMessage, { type: `run-${string}` }>
export type SignalMessage = Extract<WorkerMessage, { type: `signal-${string}` }>
