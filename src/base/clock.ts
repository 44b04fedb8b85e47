/** Milliseconds on a clock that all processes of this machine share, and that cannot be set. */
export function machineNowMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1000 + nanoseconds / 1e6
}

/** The longest delay a Node timer takes; a longer one fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * A reusable timer. `wakeAt` only ever moves the deadline earlier; `clear` cancels it.
 */
export class Alarm {
  readonly #ring: () => void
  #timer: NodeJS.Timeout | undefined
  #atMs = Number.POSITIVE_INFINITY

  constructor(ring: () => void) {
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
    this.#atMs = Number.POSITIVE_INFINITY
    this.#ring()
  }
}

/** @param at on the clock of `performance.now()` */
export function epochMs(at: number): number {
  return Math.round(Date.now() - (performance.now() - at))
}
