import type { Outcome } from '../task/outcome.js'
import type { Run } from './run.js'

/** What tasks run in: functions of this process, or an interpreter beside it. */
export interface Executor {
  /** Runs and signal handlers that it has under way at a time, besides what it takes ahead. */
  readonly slots: number
  /** At most so many tasks begin together; each has its place at once, or waits for those before it. */
  readonly batchTasks: number
  /** It can be given a batch. */
  readonly isOpen: boolean
  /** It can be given a batch that waits for those before it. */
  readonly takesAhead: boolean
  /** What runs, where it alone knows: undefined, all that has started does. */
  readonly running: Run | undefined
  /** Starts runs whose claims have begun. Each ends once: the listener may hear of it before this returns. */
  start(batch: readonly Run[], now: number): void
  /** Messages have been read. */
  turnBegan(): void
  /** Takes back what has not started, if it can: it ends as unbegun, at once or soon. */
  recall(): void
  /**
   * Something was thrown outside of every handler's call: ends what runs. Nothing may run after it.
   *
   * @returns whether that was told as the failure of a task
   */
  fault(thrown: unknown, runs: Iterable<Run>): boolean
}

export interface ExecutorListener {
  /** Right before a handler is called. */
  starting(run: Run, now: number): void
  /** It runs, and has for long or printed something: that is to be told first. */
  announce(run: Run): void
  ended(run: Run, outcome: Outcome, ranMs: number): void
  /** A run has ended whose end was awaited, or it is open again. */
  hasRoom(): void
  /** What ended of a batch is known. */
  batchEnded(): void
  /** It is not open for now; what it had has ended. */
  closed(): void
}
