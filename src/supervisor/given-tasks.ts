import type { Ref } from '../task/ref.js'

/** A ref that the worker has. */
interface Given {
  readonly ref: Ref
  /** At the latest, on the clock of `performance.now()`; undefined: nobody said so. */
  startedAt: number | undefined
  /** The worker told of its start, and so was everybody. */
  isTold: boolean
  /** It was cancelled and is with somebody else: what this worker still says of it tells what it did, and not where it is. */
  isCancelled: boolean
}

/** Refs that a worker still had when it ended. */
export interface Left {
  /** It may have begun these. */
  readonly begun: readonly Ref[]
  readonly untouched: readonly Ref[]
}

export interface Begun {
  readonly ref: Ref
  /** At the latest, on the clock of `performance.now()`. */
  readonly startedAt: number
}

/**
 * The refs that one worker was given and has not reported, by their number, in the order in which they were given.
 *
 * What was cancelled is kept until the worker has confirmed that: until then it may begin some of it. It is given
 * nothing meanwhile, so there is never more here than it had when it was last heard.
 */
export class GivenTasks {
  readonly #owned = new Map<number, Given>()
  readonly #cancelled = new Map<number, Given>()
  /** Those of both whose start was told, oldest first. */
  readonly #started = new Set<Given>()
  readonly #concurrency: number
  #next = 0

  /** @param concurrency tasks that the worker has in flight */
  constructor(concurrency: number) {
    this.#concurrency = concurrency
  }

  /** What it answers for, or runs. */
  get size(): number {
    let size = this.#owned.size
    if (this.#cancelled.size > 0) for (const { isCancelled } of this.#started) if (isCancelled) size++
    return size
  }

  /** Has it more than it can run now? */
  get hasAhead(): boolean {
    return this.#owned.size > Math.max(1, this.#started.size)
  }

  /** @returns the number of the first */
  give(refs: readonly Ref[]): number {
    const first = this.#next
    for (const ref of refs)
      this.#owned.set(this.#next++, { ref, startedAt: undefined, isTold: false, isCancelled: false })
    return first
  }

  refOf(number: number): Ref | undefined {
    return (this.#owned.get(number) ?? this.#cancelled.get(number))?.ref
  }

  start(number: number, now: number): Ref | undefined {
    const given = this.#begin(number, now)
    if (given !== undefined) given.isTold = true
    return given?.ref
  }

  #begin(number: number, now: number): Given | undefined {
    const given = this.#owned.get(number) ?? this.#cancelled.get(number)
    if (given === undefined) return undefined
    given.startedAt = now
    this.#started.add(given)
    return given
  }

  end(number: number): Given | undefined {
    const given = this.#owned.get(number) ?? this.#cancelled.get(number)
    if (given === undefined) return undefined
    this.#started.delete(given)
    if (!this.#owned.delete(number)) this.#cancelled.delete(number)
    return given
  }

  /**
   * Takes back what is not started, to be given to others. The claim decides if both try.
   *
   * @param runsFirst in a sequential worker the first is what it runs, told or not, unless that is something else
   */
  cancel(runsFirst: boolean): Ref[] {
    const refs: Ref[] = []
    let mayRun = runsFirst
    for (const [number, given] of this.#owned) {
      if (given.startedAt === undefined && !mayRun) {
        given.isCancelled = true
        this.#owned.delete(number)
        this.#cancelled.set(number, given)
        refs.push(given.ref)
      }
      mayRun = false
    }
    return refs
  }

  /**
   * The worker has dropped what was cancelled, but for those that it had begun: it will report them.
   *
   * @returns what it dropped and nobody else has: it had reported all before, and had not begun what seemed to run first
   */
  confirmed(begun: readonly number[], now: number): Ref[] {
    for (const number of begun)
      if (this.#cancelled.get(number)?.startedAt === undefined) this.#begin(number, now)
    for (const [number, { startedAt }] of this.#cancelled)
      if (startedAt === undefined) this.#cancelled.delete(number)
    const dropped: Ref[] = []
    for (const [number, { ref, startedAt }] of this.#owned) {
      if (startedAt !== undefined || begun.includes(number)) continue
      this.#owned.delete(number)
      dropped.push(ref)
    }
    return dropped
  }

  /** When the one that runs for longest began, as far as that was told. */
  get runningSince(): number | undefined {
    for (const { startedAt } of this.#started) return startedAt
    return undefined
  }

  /** What nobody else has. */
  get left(): Left {
    const left = { begun: [] as Ref[], untouched: [] as Ref[] }
    let place = 0
    for (const { ref, startedAt } of this.#owned.values()) {
      const mayHaveBegun = startedAt !== undefined || place < this.#concurrency
      left[mayHaveBegun ? 'begun' : 'untouched'].push(ref)
      place++
    }
    return left
  }

  /** What it may have begun and not settled: what it had, and what others have by now until it confirms that it has not. */
  get unsettled(): readonly Ref[] {
    return [...this.#owned.values(), ...this.#cancelled.values()].map(({ ref }) => ref)
  }

  /** What may have begun: a start that follows a report at once is not told. */
  begun(lastHeardAt: number): readonly Begun[] {
    const told = Array.from(this.#started, ({ ref, startedAt = lastHeardAt }) => ({ ref, startedAt }))
    const untold = [...this.#owned.values()]
      .slice(0, this.#concurrency)
      .filter(({ startedAt }) => startedAt === undefined)
      .map(({ ref }) => ({ ref, startedAt: lastHeardAt }))
    return [...told, ...untold]
  }
}
