/** Fires once when every call of `look` over its time has reported an idle worker. */
export class IdleTimer {
  readonly #ring: () => void
  readonly #afterMs: number
  #timer: NodeJS.Timeout | undefined

  constructor(ring: () => void, afterMs: number) {
    this.#ring = ring
    this.#afterMs = afterMs
  }

  look(isIdle: boolean): void {
    if (!isIdle) return this.clear()
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#ring()
    }, this.#afterMs)
  }

  clear(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
