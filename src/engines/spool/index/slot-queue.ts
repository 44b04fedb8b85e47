import type { Ref } from '../../../base/task/ref.js'
import type { NamedSlots } from '../../../base/task/terms.js'
import type { TaskOrder } from '../task-order.js'
import { BoundedHeap } from './bounded-heap.js'
import { type IsBefore, type Placed, placedBefore } from './window.js'

/** So many names are kept. */
const NAMED = 100_000
/** With rivals, it is among so many for each slot which one is tried. */
const SPREAD = 20

/** The tasks that wait for a slot of one name, in order. Of those beyond the best, only the number is known. */
export class SlotQueue {
  /** As the last worker said that spoke of them. */
  slots: NamedSlots
  /** How many wait. */
  size = 0
  /** A slot was given back while none waited, and no task was tried since. */
  isSpare = false
  readonly #isBefore: IsBefore
  /** The best of `best`, in order, but for some that came later. */
  readonly #ahead: Placed[] = []
  /** May have refs that do not wait any more. */
  #best: BoundedHeap<Placed>
  /** A scan in progress: the best that it has met so far. */
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

  /** As `pop`, but it stays. */
  peek(): Placed | undefined {
    return this.#isAheadFirst ? this.#ahead[0] : this.#best.peek()
  }

  /**
   * The best that is known; the caller knows whether it still waits.
   *
   * @param isRival others take from this queue, too, and would try the same ones in the same order. So it is one of those that come
   *   next: within about twenty times what a task takes, they all run
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

  /** Those that are known, in order. The caller knows which of them still wait. */
  *inOrder(): Generator<Ref> {
    for (const { ref } of this.#ahead) yield ref
    for (const { ref } of this.#best.inOrder()) yield ref
  }

  /** More wait than are known, and the known ones run low: a scan finds the next. */
  get runsLow(): boolean {
    return this.#best.horizon !== undefined && this.#best.size < NAMED / 4
  }

  /** None is known, and none is unknown. */
  get isOver(): boolean {
    return this.#best.horizon === undefined && this.#best.size + this.#ahead.length === 0
  }

  /** A scan in progress looks for those that are not known. */
  get isHarvesting(): boolean {
    return this.#harvest !== undefined
  }

  beginScan(): void {
    this.#harvest = this.runsLow ? new BoundedHeap(this.#isBefore, NAMED) : undefined
  }

  /** The scan met one that waits. */
  met(placed: Placed): void {
    this.#harvest?.add(placed)
  }

  /** @param isWhole it met everything */
  endScan(isWhole: boolean): void {
    if (this.#harvest !== undefined && isWhole) this.#best = this.#harvest
    this.#harvest = undefined
  }
}
