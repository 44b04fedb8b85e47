/** A figure that is costly to take: taken when asked, and so seldom that it costs a small share of the time. */
export class Rationed<T> {
  readonly #take: () => T
  readonly #pause: number
  #last: { readonly value: T; readonly nextAt: number } | undefined

  /** @param pause how many times as long as the last one took has to pass before the next one is taken */
  constructor(take: () => T, pause: number) {
    this.#take = take
    this.#pause = pause
  }

  /** As it is now, or was a moment ago. */
  get(): T {
    const now = performance.now()
    if (this.#last !== undefined && now < this.#last.nextAt) return this.#last.value
    const value = this.#take()
    const endedAt = performance.now()
    this.#last = { value, nextAt: endedAt + this.#pause * (endedAt - now) }
    return value
  }
}
