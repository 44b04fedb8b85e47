import type { Delivery } from '../task/delivery.js'
import type { LastRun } from '../task/last-run.js'
import type { Ref } from '../task/ref.js'
import { REPORT_KINDS, type Report } from '../task/report.js'
import type { RetryPolicy } from '../task/retry-policy.js'
import type { SignalNews } from '../task/schedule.js'
import type { Stream } from '../task/stream.js'

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

/** Reports as flat numbers: at 50,000 tasks per second the JSON of objects would cost more than the tasks. */
export interface PackedReports {
  readonly type: 'reports'
  /** Ran to SPOOL_OK, which is all there is to say: number of the first, how many; again and again. */
  readonly done: readonly number[]
  /** number, kind (index in REPORT_KINDS), ran ms; again and again */
  readonly packed: readonly number[]
  /** The few that have more to say, by number. */
  readonly more?: { readonly [number: string]: MoreOfReport }
  /** Numbers of tasks that run now and have not been told of before. */
  readonly started: readonly number[]
  /** How long the worker worked for all of this. */
  readonly busyMs: number
}

type MoreOfReport = Omit<Report, 'ref' | 'kind' | 'ranMs'>

const KIND_NUMBERS = new Map(REPORT_KINDS.map((kind, number) => [kind, number]))

/** Collects reports until they are worth a message. */
export class Outbox {
  readonly #isListenedTo: boolean
  #done: number[] = []
  #packed: number[] = []
  #more: Record<string, MoreOfReport> | undefined

  /** @param isListenedTo good outcomes are told one by one, with their times */
  constructor(isListenedTo: boolean) {
    this.#isListenedTo = isListenedTo
  }

  get isEmpty(): boolean {
    return this.#done.length === 0 && this.#packed.length === 0
  }

  add(number: number, report: Report): void {
    if (report.kind === 'ok' && !this.#isListenedTo) return this.#count(number)
    this.#packed.push(number, KIND_NUMBERS.get(report.kind) ?? 0, Math.round(report.ranMs))
    const { atMs, reason, detail, attempt, waitMs } = report
    if (atMs === undefined && reason === undefined && detail === undefined && attempt === undefined) return
    this.#more ??= {}
    this.#more[number] = { atMs, reason, detail, attempt, waitMs } // JSON leaves out what is undefined
  }

  #count(number: number): void {
    const done = this.#done
    const last = done.length - 1
    if (last > 0 && (done[last - 1] ?? 0) + (done[last] ?? 0) === number) done[last] = (done[last] ?? 0) + 1
    else done.push(number, 1)
  }

  take(started: readonly number[], busyMs: number): PackedReports {
    const message: PackedReports = {
      type: 'reports',
      done: this.#done,
      packed: this.#packed,
      ...(this.#more === undefined ? {} : { more: this.#more }),
      started,
      busyMs,
    }
    this.#done = []
    this.#packed = []
    this.#more = undefined
    return message
  }
}

/** The reverse: the number of every task that is told to be done. */
export function eachDone({ done }: PackedReports, tell: (number: number) => void): void {
  for (let i = 0; i < done.length; i += 2) {
    const first = done[i] ?? 0
    for (let left = done[i + 1] ?? 0, number = first; left > 0; left--, number++) tell(number)
  }
}

/** And every report of a message with its number. @param refOf undefined: nobody waits for that one */
export function eachReport(
  message: PackedReports,
  refOf: (number: number) => Ref | undefined,
  tell: (number: number, report: Report) => void,
): void {
  const { packed, more } = message
  for (let i = 0; i < packed.length; i += 3) {
    const number = packed[i] ?? 0
    const kind = REPORT_KINDS[packed[i + 1] ?? 0]
    const ref = refOf(number)
    if (kind === undefined || ref === undefined) continue
    const ranMs = packed[i + 2] ?? 0
    const rest = more?.[number]
    tell(number, rest === undefined ? { ref, kind, ranMs } : { ref, kind, ranMs, ...rest }) // one object per task
  }
}
