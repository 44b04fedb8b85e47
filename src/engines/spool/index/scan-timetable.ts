import { epochMs } from '../../../base/clock.js'
import type { LookStats } from '../../contracts/look-stats.js'
import type { TaskIndex } from './task-index.js'

// The shares of one core that looks may take. What costs more happens less often.

/** Looking again at one waiting file costs about 6 µs; budget: 0.5 % of one core. */
const LOOK_AGAIN_MS_PER_FILE = 1.2
/** The scan that finds the names of the waiting files: 1 % of one core. */
const LOOK_AGAIN_SHARE = 100
/** Scans while watches are suspended: 5 % of one core. */
const SUSPENDED_SHARE = 20
/** Scans because of ambiguous events: 10 % of one core. */
const UNCLEAR_SHARE = 10
/** Polling: 2 % of one core. */
const POLL_MS = 1000
const POLL_SHARE = 50

/** What the time of the next look depends on. */
interface Circumstances {
  /** True if there are no events, so that looks take their place. */
  readonly isPolled: boolean
  /** True while events are not listened to. */
  readonly isSuspended: boolean
}

/**
 * Decides when to look at a spool again, from what was asked for and from what the last looks cost. A pass is the regular look,
 * once per frequency. All times are on the clock of `performance.now()`.
 */
export class ScanTimetable {
  frequencyMs: number
  #scans = 0
  /** When the last scan ended. */
  #lastAt = Number.NEGATIVE_INFINITY
  /** How long the last scan took. */
  #lastMs = 0
  /** How long the last scan that listed everything took. */
  #lastFullMs = 0
  /** The first scan is due at once. */
  #request: ScanRequest = { at: Number.NEGATIVE_INFINITY, isForAll: false }
  #lastPassAt = Number.NEGATIVE_INFINITY
  #lastPassMs = 0
  #lastRecheckAt = performance.now()
  #lastNames = 0

  constructor(frequencyMs: number) {
    this.frequencyMs = frequencyMs
  }

  /** True if a scan was asked for, or was put off. */
  get isWanted(): boolean {
    return this.#request !== NO_REQUEST
  }

  /** Asks for a scan. @returns when the scan that serves all requests is due */
  want(at: number, isForAll: boolean): number {
    const pending = this.#request
    this.#request = { at: Math.min(pending.at, at), isForAll: pending.isForAll || isForAll }
    return this.#request.at
  }

  /** Ends the pending request, because a scan begins. @returns true if the request was to look at waiting files again, too */
  begin(): boolean {
    const { isForAll } = this.#request
    this.#request = NO_REQUEST
    return isForAll
  }

  /**
   * Takes note of the end of a scan.
   *
   * @param isAll true if the scan listed everything
   * @param isForAll true if waiting files are looked at again
   * @param names the number of refs that are known now
   */
  ended(startedAt: number, isAll: boolean, isForAll: boolean, names: number): void {
    this.#lastNames = names
    this.#scans++
    this.#lastAt = performance.now()
    this.#lastMs = this.#lastAt - startedAt
    if (isAll) this.#lastFullMs = this.#lastMs
    if (isForAll) this.#lastRecheckAt = startedAt
  }

  passed(startedAt: number): void {
    this.#lastPassAt = startedAt
    this.#lastPassMs = performance.now() - startedAt
  }

  isPassDue(now: number, isPolled: boolean): boolean {
    return now >= this.#passAt(isPolled)
  }

  nextAt({ isPolled, isSuspended }: Circumstances): number {
    const dueAt = Math.min(this.#passAt(isPolled), this.#request.at)
    if (!isSuspended) return dueAt
    return Math.min(dueAt, this.#lastAt + Math.max(RATE_WINDOW_MS, this.#lastMs * SUSPENDED_SHARE))
  }

  /**
   * True if it is time to look at the `waiting` files again, as often as is cheap: the time of one may have changed without an
   * event.
   */
  isLookAgainDue(waiting: number, atLeastMs = 0): boolean {
    const everyMs = Math.max(atLeastMs, waiting * LOOK_AGAIN_MS_PER_FILE, this.#lastFullMs * LOOK_AGAIN_SHARE)
    return performance.now() >= this.#lastRecheckAt + everyMs
  }

  /**
   * Returns the delay of a scan that an unclear event asks for.
   *
   * @param names the number of refs that are known now; tasks that have ended are not listed again
   */
  unclearInMs(names: number): number {
    const share = Math.min(1, (names + 1) / (this.#lastNames + 1))
    return Math.min(this.frequencyMs, this.#lastMs * share * UNCLEAR_SHARE)
  }

  /** The same while no task is ready: the delay counts from the end of the last scan, which may be long ago. */
  idleUnclearInMs(names: number): number {
    return Math.max(0, this.#lastAt + this.unclearInMs(names) - performance.now())
  }

  get hasScanned(): boolean {
    return this.#scans > 0
  }

  get stats(): Pick<LookStats, 'looks' | 'lastAtMs' | 'lastMs' | 'lastFullMs'> {
    return {
      looks: this.#scans,
      lastAtMs: this.hasScanned ? epochMs(this.#lastAt) : null,
      lastMs: Math.round(this.#lastMs),
      lastFullMs: Math.round(this.#lastFullMs),
    }
  }

  /**
   * Returns when the next pass is due: one frequency (or poll interval) after the start of the last one, unless that took over
   * half of it.
   */
  #passAt(isPolled: boolean): number {
    const pollMs = isPolled ? Math.max(POLL_MS, this.#lastPassMs * POLL_SHARE) : Number.POSITIVE_INFINITY
    return this.#lastPassAt + Math.max(Math.min(this.frequencyMs, pollMs), 2 * this.#lastPassMs)
  }
}

/** A pending request for a scan. */
interface ScanRequest {
  /** The earliest time that was asked for, on the clock of `performance.now()`. */
  readonly at: number
  /** True if waiting files are looked at again, too. */
  readonly isForAll: boolean
}

const NO_REQUEST: ScanRequest = { at: Number.POSITIVE_INFINITY, isForAll: false }

/**
 * While the backlog is longer than this and tasks end faster than `FAST_TASKS_PER_SECOND`, events would cost more than they
 * tell: three a task.
 */
export const LONG_BACKLOG = 5000
const FAST_TASKS_PER_SECOND = 2000
/** The time over which a rate is measured. */
export const RATE_WINDOW_MS = 100

/** Measures whether workers drain a long backlog fast. */
export class DrainRate {
  #since = performance.now()
  #tasks = 0

  /** When the measured time is long enough to judge by, on the clock of `performance.now()`. */
  get judgeableAt(): number {
    return this.#since + RATE_WINDOW_MS
  }

  tasksEnded(count: number): void {
    this.#tasks += count
  }

  restart(): void {
    this.#tasks = 0
    this.#since = performance.now()
  }

  /**
   * Judges the time since the last judgement.
   *
   * @param ready the backlog now
   * @param waiting the refs that a listing meets in vain; a listing has to follow once events were missed
   * @returns true if a long backlog is drained fast; undefined before the time is long enough, or while no worker has anything
   *   to end
   */
  judge({ ready, busy, waiting }: Pick<TaskIndex, 'ready' | 'busy' | 'waiting'>): boolean | undefined {
    const now = performance.now()
    if (now < this.judgeableAt) return undefined
    if (busy === 0 && this.#tasks === 0) {
      this.restart()
      return undefined
    }
    const rate = (this.#tasks * 1000) / (now - this.#since)
    this.restart()
    return rate > FAST_TASKS_PER_SECOND && ready > Math.max(LONG_BACKLOG, waiting)
  }
}
