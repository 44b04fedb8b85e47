/**
 * For how long a worker that is not known to run anything is taken for one that only sorts out tasks that are not due. It
 * reports several times per second, unless the machine is starved; one that runs something nearly always says so before.
 */
const SORTING_MS = 2000
/** After a longer rest, a worker says at once that it runs something (runtime/worker/report-buffer.ts). */
const REST_MS = 20

/** When a worker had something to do. Times are of `performance.now()`. */
export class Activity {
  #busyMs = 0
  #busySince: number | undefined
  #idleSince = performance.now()
  /** Since when nothing has shown that what it was given is due; undefined: it runs something. */
  #unprovenSince: number | undefined = this.#idleSince
  /** Nothing of what it reported last was due: it may be given more of these in a moment. */
  #hasSorted = false

  /** How long it has had something to do, until now. It does not decrease. */
  get busyMs(): number {
    return (
      this.#busyMs +
      (this.#busySince === undefined || this.isSorting ? 0 : performance.now() - this.#busySince)
    )
  }

  /** Since when it has had nothing to do; of a busy one, the last time. */
  get idleSince(): number {
    return this.#idleSince
  }

  /** It may only look through tasks of which none is due: workers alone can see when a task is due. Between two batches, too. */
  get isSorting(): boolean {
    if (this.#unprovenSince === undefined || (this.#busySince === undefined && !this.#hasSorted)) return false
    return performance.now() - this.#unprovenSince < SORTING_MS
  }

  /** It can be given something from now on: what it did before was no rest. */
  ready(): void {
    this.#idleSince = performance.now()
  }

  /** It runs something. */
  started(): void {
    this.#unprovenSince = undefined
    this.#hasSorted = false
  }

  /** It has reported so many tasks, and so many of them ran. */
  reported(count: number, ran: number): void {
    if (ran > 0) return this.started()
    if (count === 0) return
    this.#count()
    this.#unprovenSince = performance.now()
    this.#hasSorted = true
  }

  /** Call it when that may have changed. @param outstanding how many tasks and signals it has */
  note(outstanding: number): void {
    if (outstanding > 0 === (this.#busySince !== undefined)) return
    const now = performance.now()
    if (this.#busySince === undefined) {
      this.#busySince = now
      if (this.#unprovenSince !== undefined || now - this.#idleSince > REST_MS) this.#unprovenSince = now
      return
    }
    this.#count()
    this.#busySince = undefined
    this.#idleSince = now
  }

  /** What it did until now was work, unless it only sorted. */
  #count(): void {
    const { busyMs } = this
    this.#busyMs = busyMs
    if (this.#busySince !== undefined) this.#busySince = performance.now()
  }
}
