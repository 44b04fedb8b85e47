/** The signals of one worker: those it has handlers for, and those it was given and has not finished. */
export class GivenSignals {
  /** The signal numbers it has a handler for. */
  readonly handled = new Set<number>()
  /** The start time of each, on the clock of `performance.now()`; undefined while it waits. */
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

  /** Anything but what it was given, a handler has made up: nothing would ever end it. */
  start(number: number): void {
    if (this.#given.has(number)) this.#given.set(number, performance.now())
  }

  /** Call it when the signal was handled or handed back. */
  remove(number: number): void {
    this.#given.delete(number)
  }

  get waiting(): readonly number[] {
    return [...this.#given].filter(([, startedAt]) => startedAt === undefined).map(([number]) => number)
  }

  get running(): readonly number[] {
    return [...this.#given].filter(([, startedAt]) => startedAt !== undefined).map(([number]) => number)
  }

  /** The start time of the signal that has been running longest. */
  get runningSince(): number | undefined {
    const began = [...this.#given.values()].filter(startedAt => startedAt !== undefined)
    return began.length === 0 ? undefined : Math.min(...began)
  }
}
