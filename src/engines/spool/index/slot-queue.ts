import { orderedPart } from '../../../base/heap.js'
import type { Ref } from '../../../base/task/ref.js'
import type { NamedSlots } from '../../../base/task/terms.js'
import type { TaskOrder } from '../task-order.js'
import { type IsBefore, type Placed, placedBefore } from '../window.js'
import { BoundedHeap } from './bounded-heap.js'

/** The number of refs whose names a queue keeps. */
const NAMED = 100_000
/** With rivals, the ref to try is one of this many next refs for each slot but the first. */
const SPREAD = 20

/** The refs that wait for a slot of one name, in order. Beyond the best refs, only their number is known. */
export class SlotQueue {
  /** The name and the number of its slots, as the last worker that reported them said. */
  slots: NamedSlots
  /** The number of refs that wait. */
  size = 0
  /** True if a slot was given back while no ref waited, and none was tried since. */
  isSpare = false
  readonly #isBefore: IsBefore
  /** The refs taken off `#best` to choose among, in order, except for refs that were added later. */
  readonly #ahead: Placed[] = []
  /** The best known refs, without those ahead. It may have refs that do not wait any more. */
  #best: BoundedHeap<Placed>
  /** The best refs that the scan in progress has met so far; undefined if no scan looks for them. */
  #harvest: BoundedHeap<Placed> | undefined

  constructor(slots: NamedSlots, order: TaskOrder) {
    this.slots = slots
    this.#isBefore = placedBefore(order)
    this.#best = new BoundedHeap(this.#isBefore, NAMED)
  }

  add(placed: Placed): void {
    this.size++
    this.#harvest?.add(placed)
    this.#best.add(placed)
  }

  /** Returns the ref that `pop(false)` would remove. */
  peek(): Placed | undefined {
    return this.#isAheadFirst ? this.#ahead[0] : this.#best.peek()
  }

  /**
   * Removes and returns the best known ref; the caller knows whether the ref still waits.
   *
   * @param isRival true if other daemons take from this queue, too, and would try the same refs in the same order. The result
   *   is then one of the refs that come next: they all run within about twenty times what a task takes
   */
  pop(isRival: boolean): Placed | undefined {
    const most = isRival ? 1 + SPREAD * (this.slots.count - 1) : 1
    if (most === 1) return this.#isAheadFirst ? this.#ahead.shift() : this.#best.pop()
    while (this.#ahead.length < most && this.#best.size > 0) this.#ahead.push(this.#best.pop() as Placed)
    return this.#ahead.splice(Math.floor(Math.random() * Math.min(most, this.#ahead.length)), 1)[0]
  }

  get #isAheadFirst(): boolean {
    const [ahead, best] = [this.#ahead[0], this.#best.peek()]
    return ahead !== undefined && (best === undefined || this.#isBefore(ahead, best))
  }

  /** Returns the first known refs in order. The caller knows which of them still wait. */
  first(count: number): Ref[] {
    const best = orderedPart([...this.#best.values()], 0, count, this.#isBefore)
    return [...this.#ahead, ...best].slice(0, count).map(({ ref }) => ref)
  }

  /** True if more refs wait than are known, and the known ones run low: a scan finds the next. */
  get runsLow(): boolean {
    return this.#best.horizon !== undefined && this.#best.size < NAMED / 4
  }

  /** True if no ref is known, and there are none that are not known. */
  get isOver(): boolean {
    return this.#best.horizon === undefined && this.#best.size + this.#ahead.length === 0
  }

  /** True if the scan in progress looks for refs that are not known. */
  get isHarvesting(): boolean {
    return this.#harvest !== undefined
  }

  beginScan(): void {
    this.#harvest = this.runsLow ? new BoundedHeap(this.#isBefore, NAMED) : undefined
  }

  /** Takes in a waiting ref that the scan met. */
  met(placed: Placed): void {
    this.#harvest?.add(placed)
  }

  /** @param isWhole true if the scan met everything */
  endScan(isWhole: boolean): void {
    if (this.#harvest !== undefined && isWhole) this.#best = this.#harvest
    this.#harvest = undefined
  }
}
