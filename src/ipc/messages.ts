import type { Delivery } from '../task/delivery.js'
import type { LastRun } from '../task/last-run.js'
import type { Ref } from '../task/ref.js'
import type { RetryPolicy } from '../task/retry-policy.js'
import type { SignalNews } from '../task/schedule.js'
import type { Stream } from '../task/stream.js'
import type { Listening, PackedReports } from './reports.js'

/** What a worker needs to know, sent once, first. */
export interface WorkerOptions {
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
  /** Where handlers may put tasks; the first is the default. With `sync` one is on disk before it counts as stored. */
  readonly targets: ReadonlyArray<{ readonly directory: string; readonly sync: boolean }>
  /** Tasks in flight. */
  readonly concurrency: number
  /** 0: no limit. */
  readonly maxTasks: number
  /** The run of a signal's handler counts as a task for it. */
  readonly signalAsTask: boolean
  /** 0: no deadline. */
  readonly harakiriMs: number
  /** The start timeout of an interpreter that replaces a dead one; 0: none. */
  readonly startTimeoutMs: number
  /** Entered before each task; null: the directory that holds the task. */
  readonly chdir: string | null
  readonly title: string | null
  /** There is a listener for single tasks: even those that ran to SPOOL_OK are reported one by one. */
  readonly isListenedTo: boolean
  /** Reports say which attempt it was and how long the task waited. */
  readonly isDetailed: boolean
}

export type HandlerSpec =
  | { readonly kind: 'javascript'; readonly file: string }
  | { readonly kind: 'host'; readonly host: HostOptions }
  | { readonly kind: 'exec'; readonly command: string; readonly input: 'json' | 'packet' }

/** A worker has standard input, output and error, its channel, and from here on the areas of shared memory. */
export const FIRST_AREA_FD = 4

/** An interpreter that a worker keeps for the handlers of one language. */
export interface HostOptions {
  readonly language: 'Python' | 'Perl' | 'Ruby'
  readonly command: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** Where it starts and loads, whatever directory its worker is in by then. */
  readonly home: string
  /** How many areas of memory it shares with the hosts of other workers; the worker has their descriptors. */
  readonly areas: number
  /** What it loads, for people. */
  readonly files: readonly string[]
  /** What it is told first; names may repeat. */
  readonly settings: ReadonlyArray<readonly [name: string, value: string]>
}

/** Master to worker. The refs of one worker are numbered from 0 in the order in which they are given. */
export type MasterMessage =
  | { readonly type: 'open'; readonly options: WorkerOptions }
  /** In place of `open`: nothing is run. The runs of these tasks were ended by nobody's fault. */
  | { readonly type: 'clear-marks'; readonly options: WorkerOptions; readonly refs: readonly Ref[] }
  /** `lastRuns`: of those refs, by their place, whose last run was cut short. */
  | {
      readonly type: 'run'
      readonly first: number
      readonly refs: readonly Ref[]
      readonly lastRuns?: LastRuns
    }
  /** Its handler has the next free place. */
  | { readonly type: 'signal'; readonly number: number }
  /** To the question of this id: values, or why there are none. */
  | {
      readonly type: 'answer'
      readonly id: number
      readonly values: readonly string[]
      readonly error?: string
    }
  /** Drop what is not started: it is given to others. To be answered, with `cancelled`. */
  | { readonly type: 'cancel' }
  /** Who listens has changed. A worker begins with `WorkerOptions.isListenedTo`, and without times. */
  | ({ readonly type: 'listen' } & Listening)
  /** Hand back, finish what runs, exit. It is killed after `mercyMs`. */
  | { readonly type: 'drain'; readonly mercyMs: number }

export type LastRuns = ReadonlyArray<readonly [place: number, lastRun: LastRun]>

/** Worker to master. */
export type WorkerMessage =
  /** What it loads now, for people. */
  | { readonly type: 'loading'; readonly name: string }
  /** With what the handlers said about signals while they were loaded. */
  | { readonly type: 'ready'; readonly news: readonly SignalNews[] }
  | { readonly type: 'unloadable'; readonly error: string }
  | PackedReports
  | { readonly type: 'signal-news'; readonly news: SignalNews }
  | { readonly type: 'signal-started'; readonly number: number }
  | { readonly type: 'signal-ended'; readonly number: number; readonly error?: string }
  /** It was not started, and will not be. */
  | { readonly type: 'signal-returned'; readonly number: number }
  | { readonly type: 'recycling'; readonly tasks: number }
  /** An exception was thrown outside every handler's call. The worker finishes what it can and exits. */
  | { readonly type: 'faulted'; readonly error: string }
  /**
   * It can run nothing more: it is out of descriptors, memory or locks, or its interpreter dies at once. What it was given
   * is untouched. It finishes what runs and exits.
   */
  | { readonly type: 'unfit'; readonly error: string }
  /** What is not started was dropped, or handed back; `begun` are the numbers of what is still to be reported. */
  | { readonly type: 'cancelled'; readonly begun: readonly number[] }
  | { readonly type: 'log'; readonly name: string; readonly message: string; readonly stream?: Stream }
  /** What was printed, in pieces as they came. `ref`: by the task that runs; null: by nobody that is known. */
  | {
      readonly type: 'output'
      readonly ref: Ref | null
      readonly stream: Stream
      readonly text: string
      /** Other tasks run beside it. */
      readonly isBeside: boolean
    }
  /** An interpreter died; `detail` says which and how. Another one is started. */
  | { readonly type: 'host-died'; readonly detail: string }
  /** The other one takes tasks. */
  | { readonly type: 'host-revived' }
  /** What a handler asks of the master. Bytes are latin1. */
  | { readonly type: 'ask'; readonly id: number; readonly name: string; readonly values: readonly string[] }
  /** A new deadline for the running task, from now; 0: only the general one. */
  | { readonly type: 'deadline'; readonly afterMs: number }
  /** A process to be killed, with its group, should the worker die. */
  | { readonly type: 'child-started'; readonly pid: number }
  | { readonly type: 'child-ended'; readonly pid: number }
  /** A handler put a task somewhere. */
  | { readonly type: 'stored'; readonly path: string; readonly bytes: number }
  /** The last message of a worker that exits on purpose. */
  | { readonly type: 'drained' }

/** What became of `clear-marks`: `left` could not be cleared, because of `error`. */
export interface MarksCleared {
  readonly type: 'marks-cleared'
  readonly left: readonly Ref[]
  readonly error: string
}

export type SignalMessage = Extract<WorkerMessage, { type: `signal-${string}` }>
