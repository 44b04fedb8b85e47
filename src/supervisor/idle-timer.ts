/** How long an idle process is kept in cheap mode: the next task may arrive soon. */
const CHEAP_IDLE_MS = 1000

/** Fires once when every call of `look` over this time has reported an idle worker. */
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
