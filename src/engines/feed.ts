import type { LastRun } from '../task/last-run.js'
import type { Ref } from '../task/ref.js'
import type { ParkReason, Report } from '../task/report.js'

export interface Counts {
  /** Due now. It may be an estimate. */
  readonly ready: number
  /** Taken and not yet returned. */
  readonly busy: number
  /** Known, but not runnable now: not yet due, or parked. */
  readonly waiting: number
}

/**
 * What a master knows of one spool: which tasks may run now, and what became of those it gave to workers. It claims
 * nothing.
 *
 * A ref is opaque. It belongs to the caller that took it, until that calls exactly one of `done`, `returned` or
 * `abandoned` with it.
 */
export interface Feed {
  /**
   * Starts looking for tasks, and calls `wakeUp` whenever `take` may return more than before; a call may be spurious.
   * Resolves after the first complete scan. Called once.
   */
  open(wakeUp: () => void): Promise<void>
  /** The most urgent due refs, at most `limit`. Never blocks. */
  take(limit: number): readonly Ref[]
  /**
   * How many refs are parked for this reason, because a worker reported that they may not run now. They do not count
   * as ready.
   */
  parkedFor(reason: ParkReason): number
  /** As `take`, for refs that are parked for this reason. For workers to which the reason does not apply. */
  takeParked(reason: ParkReason, limit: number): readonly Ref[]
  /** The reason no longer holds: the refs that were parked for it become ready, some only after the next scan. */
  unpark(reason: ParkReason): void
  /** A worker ran these to SPOOL_OK, and they are removed. */
  done(refs: readonly Ref[]): void
  /** A worker has reported these refs, whether it ran them or not. */
  returned(reports: readonly Report[]): void
  /** Their worker died or never started them: they are due again. */
  abandoned(refs: readonly Ref[]): void
  /** The run of this ref was cut short. Also called for a ref that another worker has by now. */
  cutShort(ref: Ref, lastRun: LastRun): void
  /** How the last run of a ref was cut short, for the worker that gets it next. */
  lastRunOf(ref: Ref): LastRun | undefined
  /**
   * Looks for tasks at once.
   *
   * @param stored only look for the task that this process has just stored under this name (`Stored.path`); a feed
   *   ignores names of other spools
   */
  lookNow(stored?: string): void
  /** How often it looks for tasks without a hint; null: as when it was opened. */
  setFrequency(frequencyMs: number | null): void
  counts(): Counts
  /**
   * For how long its search for tasks has stood still though it should go on, in milliseconds: seen from one call to the
   * next, so it needs to be asked from time to time. 0 for a feed that does not search.
   */
  readonly stalledMs: number
  /**
   * True when every due task has run and no worker has one. Tasks that wait for people (`paused`, `unknown-name`) do
   * not count.
   */
  readonly isDrained: boolean
  /** Stops looking, and stops calling `wakeUp`. Workers may still settle what they hold. */
  close(): void
}
