import type { Outcome } from '../../base/task/outcome.js'
import type { Run } from './run.js'

/** What tasks run in: functions in this process, or a separate interpreter process. */
export interface Executor {
  /** How many pages it is given side by side. */
  readonly slots: number
  /** How many tasks may begin together. Each of them runs at once, or waits for those before it. */
  readonly pageTasks: number
  /** It accepts a page. */
  readonly isOpen: boolean
  /** The running task, if only the executor knows it; undefined: every started run is running. */
  readonly running: Run | undefined
  /**
   * Runs tasks that have begun. Each ends exactly once; the listener may be called before this returns.
   *
   * @returns until when it takes no other page in that slot; undefined: it does now
   */
  run(page: readonly Run[], now: number): Promise<void> | undefined
  /** Called at the start of a turn, after messages have been read. */
  turnBegan?(): void
  /** Takes back runs that have not started. They end as unbegun, now or soon. Absent: every run that has begun is running. */
  recall?(): void
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
  /** @returns until when it is being settled; undefined: it is settled */
  ended(run: Run, outcome: Outcome, ranMs: number): Promise<void> | undefined
  /** All results so far were passed to `ended`, or it is open again. */
  progressed(): void
  /** It is not open for now. Everything it had has ended. */
  closed(): void
}
