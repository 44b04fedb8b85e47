import type { LastRun } from '../task/last-run.js'
import type { Ref } from '../task/ref.js'
import type { ParkReason, Report } from '../task/report.js'

export interface Counts {
  /** Due now. It may be an estimate. */
  readonly ready: number
  /** Taken and not yet returned. */
  readonly busy: number
  /** Known, and not to run now: not yet due, or parked. */
  readonly waiting: number
}

/**
 * What a master knows of one spool: which tasks may run now, and what became of those it gave away. It claims nothing.
 *
 * A ref is opaque, and belongs to whoever took it until exactly one of `done`, `returned` or `abandoned` is called with it.
 */
export interface Feed {
  /**
   * Starts looking for tasks, and calls back whenever `take` may return more than before. A call may be spurious.
   * Resolves after the first complete look. Called once.
   */
  open(wakeUp: () => void): Promise<void>
  /** The most urgent refs that are due, at most `limit`. Never blocks. */
  take(limit: number): readonly Ref[]
  /** How many refs are parked for this reason: a worker reported that they may not run now. They are not ready. */
  parkedFor(reason: ParkReason): number
  /** As `take`, of the refs that are parked for this reason, where they need not run as others do. */
  takeParked(reason: ParkReason, limit: number): readonly Ref[]
  /** The reason is over: what was parked for it is ready again, or will be once it has been looked for. */
  unpark(reason: ParkReason): void
  /** A worker ran these to SPOOL_OK, and they are gone. */
  done(refs: readonly Ref[]): void
  /** A worker ended with these refs, whether it ran them or not. */
  returned(reports: readonly Report[]): void
  /** Their worker died, or never looked at them: they are due again. */
  abandoned(refs: readonly Ref[]): void
  /** The run of this ref was cut short like that. Also told of a ref that somebody else has by now. */
  cutShort(ref: Ref, lastRun: LastRun): void
  /** How the last run of a ref was cut short, for the worker that gets it next. */
  lastRunOf(ref: Ref): LastRun | undefined
  /**
   * Looks for tasks at once.
   *
   * @param stored only for the task that this process has just stored under this name (`Stored.path`); another feed's
   *   name is nothing to this one
   */
  lookNow(stored?: string): void
  /** How often it looks without being asked; null: as often as when it was opened. */
  setFrequency(frequencyMs: number | null): void
  counts(): Counts
  /** All that was due has run, and nothing is with a worker. What waits for people (`paused`, `unknown-name`) does not count. */
  readonly isDrained: boolean
  /** Stops looking, and calls back no more. What workers hold they may still settle. */
  close(): void
}
