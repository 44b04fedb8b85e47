import type { CronTable } from './cron.js'

/** When a schedule is due next, and whether it is due now. Pure: the time is a parameter. */
export interface Ticks {
  /** Infinity means never again. */
  readonly nextAtMs: number
  /** Returns the occurrence that is due, if any. Several that were slept through count as one. Call it when time has passed. */
  take(nowMs: number): number | undefined
  /** Starts over as if created now; a schedule that has ended stays ended. */
  restart(nowMs: number): void
}

/** A fixed interval on the monotonic clock. The phase does not drift, however late `take` is called. */
export class TimerTicks implements Ticks {
  readonly #everyMs: number
  #left: number
  #startMs: number
  #nextAtMs: number

  /** @param iterations 0 means forever */
  constructor(everyMs: number, iterations: number, nowMs: number) {
    this.#everyMs = everyMs
    this.#left = iterations === 0 ? Number.POSITIVE_INFINITY : iterations
    this.#startMs = nowMs
    this.#nextAtMs = nowMs + everyMs
  }

  get nextAtMs(): number {
    return this.#nextAtMs
  }

  take(nowMs: number): number | undefined {
    if (nowMs < this.#nextAtMs) return undefined
    const periods = Math.floor((nowMs - this.#startMs) / this.#everyMs)
    this.#left--
    this.#nextAtMs =
      this.#left === 0 ? Number.POSITIVE_INFINITY : this.#startMs + (periods + 1) * this.#everyMs
    return this.#startMs + periods * this.#everyMs
  }

  restart(nowMs: number): void {
    this.#startMs = nowMs
    if (this.#left > 0) this.#nextAtMs = nowMs + this.#everyMs
  }
}

/** An occurrence that nobody took within this many ms has been missed. uWSGI also requires that the minute matches. */
const LATEST_MS = 60_000
/**
 * If the clock is set back by less than this, in ms, nothing repeats. By more, it was wrong before, and everything starts over.
 */
const REPEAT_MS = 3_600_000

/** Occurrences of a cron expression, on the wall clock, which may jump either way. */
export class CalendarTicks implements Ticks {
  readonly #table: CronTable
  /** Occurrences up to this time are over, whether they were taken or missed. */
  #overMs: number
  #nextAtMs: number

  constructor(table: CronTable, nowMs: number) {
    this.#table = table
    this.#overMs = nowMs
    this.#nextAtMs = this.#after(nowMs)
  }

  get nextAtMs(): number {
    return this.#nextAtMs
  }

  take(nowMs: number): number | undefined {
    if (nowMs < this.#overMs - REPEAT_MS) this.restart(nowMs)
    if (nowMs < this.#nextAtMs) return undefined
    const instant = this.#latest(nowMs)
    this.restart(nowMs)
    return instant
  }

  restart(nowMs: number): void {
    this.#overMs = nowMs
    this.#nextAtMs = this.#after(nowMs)
  }

  /** Returns the latest occurrence up to now, unless even that one has been missed. */
  #latest(nowMs: number): number | undefined {
    let latest: number | undefined
    let next = Math.max(this.#nextAtMs, this.#after(nowMs - LATEST_MS))
    for (; next <= nowMs; next = this.#after(next)) latest = next
    return latest
  }

  #after(ms: number): number {
    return this.#table.next(ms) ?? Number.POSITIVE_INFINITY
  }
}
