/** What one worker has to do with signals: those that it can handle, and those that it was given and has not ended. */
export class GivenSignals {
  /** The numbers for which it has a handler. */
  readonly handled = new Set<number>()
  /** When each began, on the clock of `performance.now()`; undefined: it waits. */
  readonly #given = new Map<number, number | undefined>()

  get size(): number {
    return this.#given.size
  }

  has(number: number): boolean {
    return this.#given.has(number)
  }

  give(number: number): void {
    this.#given.set(number, undefined)
  }

  start(number: number): void {
    this.#given.set(number, performance.now())
  }

  /** It ended, or was given back. */
  remove(number: number): void {
    this.#given.delete(number)
  }

  get waiting(): readonly number[] {
    return [...this.#given].filter(([, startedAt]) => startedAt === undefined).map(([number]) => number)
  }

  get running(): readonly number[] {
    return [...this.#given].filter(([, startedAt]) => startedAt !== undefined).map(([number]) => number)
  }

  /** When the one that runs for longest began. */
  get runningSince(): number | undefined {
    const began = [...this.#given.values()].filter(startedAt => startedAt !== undefined)
    return began.length === 0 ? undefined : Math.min(...began)
  }
}
