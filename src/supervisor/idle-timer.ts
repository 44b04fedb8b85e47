/** In cheap mode an idle process is kept for so long: the next task may be on its way. */
const CHEAP_IDLE_MS = 1000

/** Rings once when it was told for long enough, each time, that there is nothing to do. */
export class IdleTimer {
  readonly #ring: () => void
  #timer: NodeJS.Timeout | undefined

  constructor(ring: () => void) {
    this.#ring = ring
  }

  look(isIdle: boolean): void {
    if (!isIdle) return this.clear()
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#ring()
    }, CHEAP_IDLE_MS)
  }

  clear(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
