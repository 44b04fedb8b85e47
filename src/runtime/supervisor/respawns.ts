/** Respawns that wait for their delay. */
export class Respawns {
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #ring: () => void

  /** @param ring called when a delay is over */
  constructor(ring: () => void) {
    this.#ring = ring
  }

  get size(): number {
    return this.#timers.size
  }

  addIn(delayMs: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.#ring()
    }, delayMs)
    this.#timers.add(timer)
  }

  /** Gives all of them new delays. */
  delayAnew(delayMs: () => number): void {
    const { size } = this
    this.clear()
    for (let i = 0; i < size; i++) this.addIn(delayMs())
  }

  clear(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
  }
}
