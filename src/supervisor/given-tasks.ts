import type { Ref } from '../task/ref.js'

/** A ref that the worker has. `startedAt` is told, or undefined; on the clock of `performance.now()`. */
interface Given {
  readonly ref: Ref
  startedAt: number | undefined
  /** Taken back from a silent worker, and given to another: what this one still says of it does not count. */
  isTakenBack: boolean
}

/** The refs that one worker was given and has not reported, by their number, in the order in which they were given. */
export class GivenTasks {
  readonly #given = new Map<number, Given>()
  readonly #concurrency: number
  #next = 0
  #takenBack = 0

  /** @param concurrency tasks that the worker has in flight */
  constructor(concurrency: number) {
    this.#concurrency = concurrency
  }

  /** Refs it has and still answers for. */
  get size(): number {
    return this.#given.size - this.#takenBack
  }

  /** @returns the number of the first */
  give(refs: readonly Ref[]): number {
    const first = this.#next
    for (const ref of refs) this.#given.set(this.#next++, { ref, startedAt: undefined, isTakenBack: false })
    return first
  }

  start(number: number, now: number): Ref | undefined {
    const given = this.#given.get(number)
    if (given !== undefined) given.startedAt = now
    return given?.ref
  }

  end(number: number): Given | undefined {
    const given = this.#given.get(number)
    if (given?.isTakenBack === true) this.#takenBack--
    this.#given.delete(number)
    return given
  }

  /**
   * What is not started, to be given to others. The claim decides if both try.
   *
   * @param runsFirst in a sequential worker the first is what it runs, told or not, unless that is something else
   */
  takeBack(runsFirst: boolean): Ref[] {
    const refs: Ref[] = []
    let mayRun = runsFirst
    for (const given of this.#given.values()) {
      if (given.startedAt === undefined && !given.isTakenBack && !mayRun) {
        given.isTakenBack = true
        refs.push(given.ref)
      }
      mayRun = false
    }
    this.#takenBack += refs.length
    return refs
  }

  /** When the one that runs for longest began, as far as that was told. */
  get runningSince(): number | undefined {
    let earliest: number | undefined
    for (const { startedAt } of this.#given.values())
      if (startedAt !== undefined) earliest = Math.min(earliest ?? startedAt, startedAt)
    return earliest
  }

  get left(): readonly Ref[] {
    return this.#left.map(({ ref }) => ref)
  }

  /** What may have begun, and since when at the latest: a start that follows a report at once is not told. */
  begun(lastHeardAt: number): ReadonlyArray<{ readonly ref: Ref; readonly startedAt: number }> {
    return this.#left
      .filter(({ startedAt }, place) => startedAt !== undefined || place < this.#concurrency)
      .map(({ ref, startedAt = lastHeardAt }) => ({ ref, startedAt }))
  }

  get #left(): Given[] {
    return [...this.#given.values()].filter(given => !given.isTakenBack)
  }
}
