/** Several pieces of work at a time, begun in the order in which they are brought. */
export class Turns {
  readonly #most: number
  readonly #going = new Set<Promise<void>>()
  #failure: { readonly error: unknown } | undefined

  constructor(most: number) {
    this.#most = most
  }

  /** Resolves when there is room for the next. @throws what one before has thrown; after that, none is begun */
  async take(work: () => Promise<void>): Promise<void> {
    const going: Promise<void> = work().then(
      () => void this.#going.delete(going),
      (error: unknown) => {
        this.#going.delete(going)
        this.#failure ??= { error }
      },
    )
    this.#going.add(going)
    while (this.#going.size >= this.#most) await Promise.race(this.#going)
    if (this.#failure !== undefined) await this.end()
  }

  /** Resolves when all have ended. @throws what the first that failed has thrown */
  async end(): Promise<void> {
    await Promise.all(this.#going)
    if (this.#failure !== undefined) throw this.#failure.error
  }
}
