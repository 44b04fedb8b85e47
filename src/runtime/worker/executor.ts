import type { Outcome } from '../../base/task/outcome.js'
import type { Run } from './run.js'

/** Runs tasks: by functions in this process, or in a separate interpreter process. */
export interface Executor {
  /** How many pages the executor may be given side by side. */
  readonly slots: number
  /** How many tasks may begin together. Each of them runs at once, or waits for those before it. */
  readonly pageTasks: number
  /** True while the executor accepts a page. */
  readonly isOpen: boolean
  /**
   * Returns the running task, once those that have ended before it are told. Absent, or undefined: every started run is running.
   */
  running?(): Run | undefined
  /**
   * Runs tasks that have begun. Each ends exactly once; the listener may be called before this returns.
   *
   * @returns a promise until the executor takes another page in that slot; undefined: it does now
   */
  run(page: readonly Run[], now: number): Promise<void> | undefined
  /** Called at the start of a turn, after messages have been read. */
  turnBegan?(): void
  /** Takes back runs that have not started. They end as not begun, now or soon. Absent: every run that has begun is running. */
  recall?(): void
  /**
   * Ends what runs after an exception that was thrown outside any handler's call. Nothing may run after it.
   *
   * @returns true if the exception was reported as the failure of a task
   */
  fault(thrown: unknown, runs: Iterable<Run>): boolean
}

export interface ExecutorListener {
  /** Called right before a handler. */
  starting(run: Run, now: number): void
  /** Called when the start of a run has to be reported, because the run has taken long or has printed something. */
  announce(run: Run): void
  /** Called when a run has ended. @returns a promise until the run is settled; undefined: it is settled */
  ended(run: Run, outcome: Outcome, ranMs: number): Promise<void> | undefined
  /** Called when all results so far have been passed to `ended`. */
  progressed(): void
}
