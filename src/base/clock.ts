import { clearTimeout as clearOwn, setTimeout as setOwn } from './own-clock.js'

/** Milliseconds on a clock that all processes of this machine share, and that cannot be set. */
export function machineNowMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1000 + nanoseconds / 1e6
}

/** The longest delay a Node timer takes; a longer one fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** A timer that fires this much too late shows that the process, or the whole machine, was stopped meanwhile. */
export const STOPPED_MS = 1000
/** How often a countdown looks at the clock. */
export const STEP_MS = 1000

/**
 * Calls `call` once this process has run for this long. Time in which the process is stopped does not count, because what it
 * waits for may be stopped, too (a suspended machine, a frozen container).
 *
 * @returns a function that ends the countdown
 */
export function countDown(ms: number, call: () => void): () => void {
  let timer: NodeJS.Timeout
  const step = (leftMs: number) => {
    const stepMs = Math.min(STEP_MS, leftMs)
    const at = performance.now() + stepMs
    timer = setOwn(() => {
      if (performance.now() > at + STOPPED_MS) step(leftMs)
      else if (leftMs > stepMs) step(leftMs - stepMs)
      else call()
    }, stepMs)
  }
  step(ms)
  return () => clearOwn(timer)
}

/**
 * Resolves with what the promise resolves with, if that is in time; otherwise with what `late` returns, or rejects with what
 * `late` throws. Time for which this process was stopped does not count.
 */
export async function withDeadline<T>(promise: Promise<T>, ms: number, late: () => T): Promise<T> {
  let cancel = () => {}
  const deadline = new Promise<void>(resolve => {
    cancel = countDown(ms, resolve)
  })
  return await Promise.race([promise, deadline.then(late)]).finally(() => cancel())
}

/** Resolves when the promise has settled, either way, or after `mostMs` at the latest. The process stays alive until then. */
export function endOf(promise: Promise<unknown>, mostMs: number): Promise<void> {
  const ended = () => {}
  return withDeadline(promise.then(ended, ended), mostMs, ended)
}

/**
 * A reusable timer. `wakeAt` only ever moves the deadline earlier; `clear` cancels it.
 */
export class Alarm {
  readonly #ring: (lateMs: number) => void
  #timer: NodeJS.Timeout | undefined
  #atMs = Number.POSITIVE_INFINITY

  /** @param ring called with how late it is, in ms */
  constructor(ring: (lateMs: number) => void) {
    this.#ring = ring
  }

  /** @param atMs on the `performance.now()` clock, so that a wall-clock jump cannot delay it */
  wakeAt(atMs: number): void {
    if (atMs >= this.#atMs) return
    this.clear()
    this.#atMs = atMs
    this.#timer = setTimeout(
      () => this.#fire(),
      Math.min(MAX_TIMER_MS, Math.max(0, atMs - performance.now())),
    )
  }

  clear(): void {
    clearTimeout(this.#timer)
    this.#atMs = Number.POSITIVE_INFINITY
  }

  #fire(): void {
    const lateMs = performance.now() - this.#atMs
    this.#atMs = Number.POSITIVE_INFINITY
    this.#ring(lateMs)
  }
}

/** Converts a time to epoch ms. @param at on the clock of `performance.now()` */
export function epochMs(at: number): number {
  return Math.round(Date.now() - (performance.now() - at))
}

/** Notices work that makes no progress. It looks at a sign from time to time, so the work itself pays next to nothing. */
export class Stall {
  #sign: number | undefined
  #since = 0

  /**
   * @param sign any number that changes with progress; undefined: there is nothing to do now
   * @param nowMs on the clock of `performance.now()`
   * @returns for how long the sign has been the same, in milliseconds
   */
  look(sign: number | undefined, nowMs = performance.now()): number {
    if (sign === undefined || sign !== this.#sign) this.#since = nowMs
    this.#sign = sign
    return nowMs - this.#since
  }
}
