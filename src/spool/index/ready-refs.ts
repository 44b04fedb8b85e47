import { Heap } from '../../base/heap.js'
import { prefixOf, type Ref } from '../../task/ref.js'
import { COMPARE_TASKS, type CompareTasks, type TaskOrder } from '../task-order.js'
import { ArrivalWindow } from './arrival-window.js'
import { type Placed, SortedWindow, type Window } from './window.js'

/**
 * The refs that may run now, in order: those that the last scan met, and those that became ready since. A ref may be in
 * both, and may have left its place in the meantime: whoever takes one looks.
 */
export class ReadyRefs {
  readonly #order: TaskOrder
  readonly #compare: CompareTasks
  readonly #limit: number
  /** The refs that the last scan met. */
  #window: Window
  /** Refs that became ready since that scan. */
  readonly #fresh: Heap<Placed>
  readonly #freshNames = new Set<Ref>()
  /** More refs are due than there is room for. */
  #overflowed = false
  /** A scan in progress: what it has found so far, and what was given away in the meantime. */
  #harvest: Window | undefined
  readonly #takenSinceScan = new Set<Ref>()

  /** @param limit the maximum number of refs that a scan adds, and of those that become ready between two scans */
  constructor(order: TaskOrder, limit: number) {
    const compare = COMPARE_TASKS[order]
    this.#order = order
    this.#compare = compare
    this.#limit = limit
    this.#window = this.#newWindow()
    this.#fresh = new Heap<Placed>((a, b) => compare(a.ref, a.time, b.ref, b.time) < 0)
  }

  get size(): number {
    return this.#window.size + this.#freshNames.size
  }

  /** More refs are due than are known, and the known ones run low: a scan finds the next. */
  get runsLow(): boolean {
    return this.#overflowed && this.#window.size < this.#limit / 4
  }

  /** All due refs are known. */
  get areAll(): boolean {
    return !this.#overflowed
  }

  /** There are refs that only a scan can name. */
  missSome(): void {
    this.#overflowed = true
  }

  /** Calls back with each, once, and when it became runnable. In no order. */
  each(visit: (ref: Ref, time: number) => void): void {
    this.#window.each((ref, time) => this.#freshNames.has(ref) || visit(ref, time))
    for (const { ref, time } of this.#fresh.values()) visit(ref, time)
  }

  /** It became ready since the last scan. */
  has(ref: Ref): boolean {
    return this.#freshNames.has(ref)
  }

  /** It has become ready, and is not among those that did since the last scan. If there is no room, the next one finds it. */
  add(ref: Ref, time: number): void {
    if (this.#freshNames.size >= this.#limit) {
      this.#overflowed = true
      return
    }
    this.#freshNames.add(ref)
    this.#fresh.push({ ref, time })
  }

  /** Removes and returns the first one. */
  next(): Ref | undefined {
    const fresh = this.#fresh.peek()
    if (fresh === undefined || !this.#comesFirst(fresh)) return this.#window.next()
    this.#fresh.pop()
    this.#freshNames.delete(fresh.ref)
    return fresh.ref
  }

  /** It was given away: a scan in progress may have met it before. */
  given(ref: Ref): void {
    if (this.#harvest !== undefined) this.#takenSinceScan.add(ref)
  }

  beginScan(): void {
    this.#harvest = this.#newWindow()
    this.#takenSinceScan.clear()
    this.#overflowed = false
  }

  get isScanning(): boolean {
    return this.#harvest !== undefined
  }

  /** The scan in progress met it. @returns whether it should continue */
  seen(ref: Ref, time: number): boolean {
    const harvest = this.#harvest
    if (harvest === undefined) return false
    const isWorthMore = harvest.add(ref, time)
    this.#overflowed ||= harvest.isOverflowed
    return isWorthMore
  }

  /** @param isAsBefore what is known of this directory (its prefix) is still true: the scan left it out */
  endScan(isAsBefore?: (prefix: string) => boolean): void {
    const harvest = this.#harvest ?? this.#newWindow()
    this.#harvest = undefined
    if (isAsBefore !== undefined) harvest.adopt(this.#window, ref => isAsBefore(prefixOf(ref)))
    const isNowhereElse = this.#takenSinceScan.size === 0 && this.#freshNames.size === 0
    harvest.seal(isNowhereElse ? undefined : ref => this.#isGivenOrFresh(ref))
    this.#overflowed ||= harvest.isOverflowed
    this.#window = harvest
    this.#takenSinceScan.clear()
  }

  /** Given away since the scan met it, or ready by an event. (With a full window, a fresh ref may be listed twice.) */
  #isGivenOrFresh(ref: Ref): boolean {
    return this.#takenSinceScan.has(ref) || (!this.#overflowed && this.#freshNames.has(ref))
  }

  #newWindow(): Window {
    return this.#order === 'arrival'
      ? new ArrivalWindow(this.#limit)
      : new SortedWindow(this.#order, this.#limit)
  }

  #comesFirst(fresh: Placed): boolean {
    const first = this.#window.peek()
    if (first === undefined) return this.#window.isBeforeTheRest(fresh)
    return this.#compare(fresh.ref, fresh.time, first.ref, first.time) < 0
  }
}
