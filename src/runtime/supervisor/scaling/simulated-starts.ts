/** Times are microseconds. Each start keeps a processor busy; where there are more starts than processors, they share them. */
export class SimulatedStarts {
  readonly #startMicros: number
  readonly #processors: number
  /** What each start that has gone on all the time has done. */
  #done = 0
  #doneAt = 0
  /** What `#done` will be when each is ready, in the order in which they began. */
  readonly #ends: number[] = []

  /** @param startMicros how long a start takes that has a processor of its own */
  constructor(startMicros: number, processors: number) {
    this.#startMicros = startMicros
    this.#processors = processors
  }

  /** When the next one is ready; infinite: none starts. */
  get next(): number {
    const [end] = this.#ends
    return end === undefined ? Number.POSITIVE_INFINITY : this.#doneAt + (end - this.#done) / this.#pace
  }

  begin(now: number): void {
    this.goOn(now)
    this.#ends.push(this.#done + this.#startMicros)
  }

  /** @returns when those became ready that have since the last call, in the order in which they began */
  goOn(now: number): readonly number[] {
    const ready: number[] = []
    for (let { next } = this; next <= now; { next } = this) {
      this.#done = this.#ends.shift() ?? this.#done
      this.#doneAt = next
      ready.push(next)
    }
    this.#done += (now - this.#doneAt) * this.#pace
    this.#doneAt = now
    return ready
  }

  get #pace(): number {
    return Math.min(1, this.#processors / Math.max(1, this.#ends.length))
  }
}
