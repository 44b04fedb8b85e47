/** The longest delay of a Node timer; a longer one fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * One timer that is set again and again: `wakeAt` never makes it later than it already is, `clear` forgets it.
 */
export class Alarm {
  readonly #ring: () => void
  #timer: NodeJS.Timeout | undefined
  #atMs = Number.POSITIVE_INFINITY

  constructor(ring: () => void) {
    this.#ring = ring
  }

  /** @param atMs on the clock of `performance.now()`, so that a jump of the wall clock cannot stop it */
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
