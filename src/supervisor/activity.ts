/** For how long reports without a run say that a worker only sorts out tasks that are not due. */
const SORTING_MS = 500

/** When a worker had something to do. Times are of `performance.now()`. */
export class Activity {
  #busyMs = 0
  #busySince: number | undefined
  #idleSince = performance.now()
  #refusedAt = Number.NEGATIVE_INFINITY

  /** How long it has had something to do, until now. */
  get busyMs(): number {
    return this.#busyMs + (this.#busySince === undefined ? 0 : performance.now() - this.#busySince)
  }

  /** Since when it has had nothing to do; of a busy one, the last time. */
  get idleSince(): number {
    return this.#idleSince
  }

  /** It runs nothing, but looks through tasks of which none is due: only workers can see when a task is due. */
  get isSorting(): boolean {
    return this.#busySince !== undefined && performance.now() - this.#refusedAt < SORTING_MS
  }

  /** It has reported so many tasks, and so many of them ran. */
  reported(count: number, ran: number): void {
    if (ran > 0) this.#refusedAt = Number.NEGATIVE_INFINITY
    else if (count > 0) this.#refusedAt = performance.now()
  }

  /** Call it when that may have changed. @param outstanding how many tasks and signals it has */
  note(outstanding: number): void {
    if (outstanding > 0 === (this.#busySince !== undefined)) return
    const now = performance.now()
    if (this.#busySince === undefined) this.#busySince = now
    else {
      this.#busyMs += now - this.#busySince
      this.#busySince = undefined
      this.#idleSince = now
    }
  }
}
