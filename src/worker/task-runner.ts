import type { Claim } from '../engines/claims.js'
import type { LastRuns, WorkerMessage } from '../ipc/messages.js'
import type { LastRun } from '../task/last-run.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { Printer } from './printer.js'
import type { Run } from './run.js'

export interface RunnerOptions {
  /** Tasks in flight. */
  readonly concurrency: number
  /** 0: no limit. */
  readonly maxTasks: number
  /** The run of a signal's handler counts as a task. */
  readonly signalAsTask: boolean
  /** 0: no deadline. */
  readonly harakiriMs: number
  /** Somebody listens to single tasks. */
  readonly isListenedTo: boolean
  /** Reports say which attempt it was and how long the task waited. */
  readonly isDetailed: boolean
  /** Calls the handler of a signal. */
  handle(signal: number): unknown
  send(message: WorkerMessage): void
  readonly printer: Printer
  /** Nothing is running, and nothing will run. */
  drained(): void
}

/** The report of a run that has just ended, with what only its claim knows. */
export function withClaim(report: Report, { attempt, dueAtMs }: Claim): Report {
  return { ...report, attempt, waitMs: Math.max(0, Math.round(Date.now() - report.ranMs - dueAtMs)) }
}

/** A ref under the number that the master gave it. */
export interface Assignment {
  readonly number: number
  readonly ref: Ref
  readonly lastRun: LastRun | undefined
  /** The master gave no more with the same message. */
  readonly isLast: boolean
}

export function assignmentsOf(first: number, refs: readonly Ref[], lastRuns: LastRuns): Assignment[] {
  const lastRunOf = lastRuns.length === 0 ? undefined : new Map(lastRuns)
  return refs.map((ref, i) => ({
    number: first + i,
    ref,
    lastRun: lastRunOf?.get(i),
    isLast: i === refs.length - 1,
  }))
}

/** Claims, runs and settles what the master gives, and reports in batches. */
export interface TaskRunner {
  take(first: number, refs: readonly Ref[], lastRuns?: LastRuns): void
  /** Tells the master what runs, if it was not told: the given run, or what there is. */
  announce(run?: Run): void
  /** A signal is due: its handler has the next free place, before the tasks that wait. */
  signal(number: number): void
  /** Drops what is not started, and says what is. */
  cancel(): void
  /** This process can run nothing more: hands back what is not started, finishes what runs. */
  giveUp(error: string): void
  /** Finishes the running tasks, which have `mercyMs` left. */
  drain(mercyMs: number): void
  /**
   * An exception was thrown outside every handler's call; no task may run after it.
   *
   * @returns whether it was told as the failure of a task
   */
  fault(thrown: unknown): boolean
}

/** Yields to the event loop this often, for messages, timers and signals. */
export const SLICE_MS = 5
/** The master is told before a task begins when it has not heard of us for so long, and of what is in flight after so long; deadlines are that exact. */
export const REPORT_WITHIN_MS = 20
