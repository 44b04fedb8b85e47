import type { Ref } from '../task/ref.js'

/** A ref that was given to the worker. */
interface Given {
  readonly ref: Ref
  /**
   * The latest time at which it can have begun, on the clock of `performance.now()`; undefined: no start was
   * reported.
   */
  startedAt: number | undefined
  /** The worker announced its start, and `task-started` was emitted. */
  isTold: boolean
  /**
   * It was cancelled and given to another worker. A report of this worker then still says what the run did, but not
   * where the ref is now.
   */
  isCancelled: boolean
}

/** The refs that a worker still had when it exited. */
export interface Left {
  /** Those that it may have begun. */
  readonly begun: readonly Ref[]
  readonly untouched: readonly Ref[]
}

export interface Begun {
  readonly ref: Ref
  /** The latest time at which it can have begun, on the clock of `performance.now()`. */
  readonly startedAt: number
}

/**
 * The refs that one worker was given and has not reported, by number, in the order in which they were given.
 *
 * Cancelled refs are kept until the worker has confirmed the cancel, because it may begin some of them before that.
 * It is given nothing meanwhile, so this never holds more than the worker had when it last sent a message.
 */
export class GivenTasks {
  readonly #owned = new Map<number, Given>()
  readonly #cancelled = new Map<number, Given>()
  /** Refs of both maps whose start was reported, oldest first. */
  readonly #started = new Set<Given>()
  readonly #concurrency: number
  #next = 0

  /** @param concurrency how many tasks the worker runs at a time */
  constructor(concurrency: number) {
    this.#concurrency = concurrency
  }

  /** How many refs it owns or runs. */
  get size(): number {
    let size = this.#owned.size
    if (this.#cancelled.size > 0) for (const { isCancelled } of this.#started) if (isCancelled) size++
    return size
  }

  /** True if it has more refs than it can run now. */
  get hasAhead(): boolean {
    return this.#owned.size > Math.max(1, this.#started.size)
  }

  /** @returns the number of the first ref */
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
   * Takes back the refs that have not been started, so that other workers can have them. If both workers try, the
   * claim decides.
   *
   * @param runsFirst in a sequential worker, whether the first ref counts as running even if its start was not
   *   announced; false while the worker handles a signal
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
   * Handles the worker's answer to a cancel: it has dropped the cancelled refs except those that it had begun, which
   * it will report.
   *
   * @returns refs that it dropped and no other worker has: `cancel` had left the first one as running, but it was not
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

  /** The reported start time of the task that has been running longest. */
  get runningSince(): number | undefined {
    for (const { startedAt } of this.#started) return startedAt
    return undefined
  }

  /** The refs that no other worker has. */
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

  /**
   * The refs that it may have begun and not settled: its own, and the cancelled ones until it confirms that it did
   * not begin them.
   */
  get unsettled(): readonly Ref[] {
    return [...this.#owned.values(), ...this.#cancelled.values()].map(({ ref }) => ref)
  }

  /** The tasks that may have begun. A worker does not announce a start that directly follows a report. */
  begun(lastHeardAt: number): readonly Begun[] {
    const announced = Array.from(this.#started, ({ ref, startedAt = lastHeardAt }) => ({ ref, startedAt }))
    const inferred = [...this.#owned.values()]
      .slice(0, this.#concurrency)
      .filter(({ startedAt }) => startedAt === undefined)
      .map(({ ref }) => ({ ref, startedAt: lastHeardAt }))
    return [...announced, ...inferred]
  }
}
