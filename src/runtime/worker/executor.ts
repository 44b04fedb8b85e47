import type { Outcome } from '../../base/task/outcome.js'
import type { Run } from './run.js'

/** What tasks run in: functions in this process, or a separate interpreter process. */
export interface Executor {
  /** How many runs and signal handlers it runs at a time, besides those that it takes ahead. */
  readonly slots: number
  /** The maximum number of tasks that begin together. Each of them runs at once, or waits for those before it. */
  readonly batchTasks: number
  /** It accepts a batch. */
  readonly isOpen: boolean
  /** It accepts a batch that has to wait for those before it. */
  readonly takesAhead: boolean
  /** The running task, if only the executor knows it; undefined: every started run is running. */
  readonly running: Run | undefined
  /** Starts runs whose claims have begun. Each ends exactly once; the listener may be called before this returns. */
  start(batch: readonly Run[], now: number): void
  /** Called at the start of a turn, after messages have been read. */
  turnBegan(): void
  /** Takes back runs that have not started, if that is possible. They end as unbegun, now or soon. */
  recall(): void
  /**
   * Handles an exception that was thrown outside any handler's call: ends what runs. Nothing may run after it.
   *
   * @returns whether it was reported as the failure of a task
   */
  fault(thrown: unknown, runs: Iterable<Run>): boolean
}

export interface ExecutorListener {
  /** Called right before a handler. */
  starting(run: Run, now: number): void
  /** The run has taken long or has printed something, so its start has to be reported now. */
  announce(run: Run): void
  ended(run: Run, outcome: Outcome, ranMs: number): void
  /** An asynchronous run has ended, or the executor is open again. */
  hasRoom(): void
  /** All results so far of a batch were passed to `ended`. */
  batchEnded(): void
  /** It is not open for now. Everything it had has ended. */
  closed(): void
}
