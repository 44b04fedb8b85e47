import type { CronTable } from './cron.js'

/** When something is due next, and whether it is now. Pure: the time comes from outside. */
export interface Ticks {
  /** Infinity: never again. */
  readonly nextAtMs: number
  /** The instant that is due, if there is one; several that were slept through are one. To be called when time has passed. */
  take(nowMs: number): number | undefined
  /** As if it was made now; what ended stays ended. */
  restart(nowMs: number): void
}

/** Every so many milliseconds of a clock that only runs forward. The phase never drifts, however late it is asked. */
export class TimerTicks implements Ticks {
  readonly #everyMs: number
  #left: number
  #startMs: number
  #nextAtMs: number

  /** @param iterations 0: for ever */
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

/** Who is later than this has missed it; uWSGI, too, looks whether the minute is the right one. */
const LATEST_MS = 60_000
/** A clock that is set back by less repeats nothing. By more it was wrong before, and everything starts over. */
const REPEAT_MS = 3_600_000

/** Instants of the calendar, on the wall clock, which may jump either way. */
export class CalendarTicks implements Ticks {
  readonly #table: CronTable
  /** What lies before it is over, whether it was taken or missed. */
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

  /** The latest instant up to now, unless even that is missed. */
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
