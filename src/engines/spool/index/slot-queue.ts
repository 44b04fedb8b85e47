import { Heap } from '../../../base/heap.js'
import type { Ref } from '../../../base/task/ref.js'
import type { NamedSlots } from '../../../base/task/terms.js'
import { COMPARE_TASKS, type TaskOrder } from '../task-order.js'
import type { Placed } from './window.js'

/** So many names are kept; up to twice as many between two cuts. */
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
  readonly #newHeap: () => Heap<Placed>
  readonly #isBefore: (a: Placed, b: Placed) => boolean
  /** The best of `best`, in order, but for some that came later. */
  readonly #ahead: Placed[] = []
  /** May have refs that do not wait any more. */
  #best: Heap<Placed>
  /** All that come before this one are in `best`; undefined: all are. */
  #horizon: Placed | undefined
  /** A scan in progress: the best that it has met so far. */
  #harvest: Heap<Placed> | undefined
  #harvestHorizon: Placed | undefined

  constructor(slots: NamedSlots, order: TaskOrder) {
    const compare = COMPARE_TASKS[order]
    this.slots = slots
    this.#isBefore = (a, b) => compare(a.ref, a.time, b.ref, b.time) < 0
    this.#newHeap = () => new Heap<Placed>(this.#isBefore)
    this.#best = this.#newHeap()
  }

  add(placed: Placed): void {
    this.size++
    this.#harvest?.push(placed)
    if (this.#horizon !== undefined && !this.#isBefore(placed, this.#horizon)) return
    this.#best.push(placed)
    if (this.#best.size >= 2 * NAMED) this.#horizon = this.#best.truncate(NAMED)
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
    return this.#horizon !== undefined && this.#best.size < NAMED / 4
  }

  /** None is known, and none is unknown. */
  get isOver(): boolean {
    return this.#horizon === undefined && this.#best.size + this.#ahead.length === 0
  }

  /** A scan in progress looks for those that are not known. */
  get isHarvesting(): boolean {
    return this.#harvest !== undefined
  }

  beginScan(): void {
    this.#harvest = this.runsLow ? this.#newHeap() : undefined
    this.#harvestHorizon = undefined
  }

  /** The scan met one that waits. */
  met(placed: Placed): void {
    const harvest = this.#harvest
    if (harvest === undefined) return
    if (this.#harvestHorizon !== undefined && !this.#isBefore(placed, this.#harvestHorizon)) return
    harvest.push(placed)
    if (harvest.size >= 2 * NAMED) this.#harvestHorizon = harvest.truncate(NAMED)
  }

  /** @param isWhole it met everything */
  endScan(isWhole: boolean): void {
    if (this.#harvest !== undefined && isWhole) {
      this.#best = this.#harvest
      this.#horizon = this.#harvestHorizon
    }
    this.#harvest = undefined
  }
}
