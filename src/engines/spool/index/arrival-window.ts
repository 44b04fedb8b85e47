import type { Ref } from '../../../base/task/ref.js'
import { COMPARE_TASKS } from '../task-order.js'
import type { Placed, Visit, Window } from '../window.js'

const FIRST_CAPACITY = 1024

/**
 * The window of the order `arrival`: the first refs that a scan meets, in the order in which they became runnable. The scan may
 * stop once the window is full, so that a long backlog begins before it is listed. The refs are in a binary heap of numbers,
 * which are compared without a call and moved without a write barrier: the heap of `base/heap` takes five times as long.
 */
export class ArrivalWindow implements Window {
  readonly #limit: number
  /** The refs, by the index that `#slots` holds. */
  #refs: Ref[] = []
  /** The heap, in two arrays: when each ref became runnable (epoch µs), and the index of the ref in `#refs`. */
  #times = new Float64Array(FIRST_CAPACITY)
  #slots = new Uint32Array(FIRST_CAPACITY)
  #size = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get size(): number {
    return this.#size
  }

  get isOverflowed(): boolean {
    return this.#refs.length >= this.#limit
  }

  /**
   * Appends the ref without sifting; `seal` makes the heap, in O(n). A directory often lists its newest file first, as tmpfs
   * does, and each ref would climb to the top.
   */
  add(ref: Ref, time: number): boolean {
    if (this.#size === this.#times.length) this.#grow()
    this.#times[this.#size] = time
    this.#slots[this.#size] = this.#refs.push(ref) - 1
    this.#size++
    return !this.isOverflowed
  }

  adopt(other: ArrivalWindow, isWanted: (ref: Ref) => boolean): void {
    for (let i = 0; i < other.#size; i++) {
      const ref = other.#refs[other.#slots[i] ?? 0] ?? ''
      if (isWanted(ref)) this.add(ref, other.#times[i] ?? 0)
    }
  }

  seal(isUnwanted: ((ref: Ref) => boolean) | undefined): void {
    if (isUnwanted !== undefined) this.#remove(isUnwanted)
    const [times, slots] = [this.#times.subarray(0, this.#size), this.#slots.subarray(0, this.#size)]
    // newest first: the reversed times are a heap, or almost
    if ((times[0] ?? 0) > (times.at(-1) ?? 0)) for (const each of [times, slots]) each.reverse()
    for (let at = (this.#size >> 1) - 1; at >= 0; at--)
      this.#siftDown(at, times[at] as number, slots[at] as number)
  }

  #remove(isUnwanted: (ref: Ref) => boolean): void {
    const [times, slots, all] = [this.#times, this.#slots, this.#size]
    this.#size = 0
    for (let i = 0; i < all; i++) {
      const [time, slot] = [times[i] as number, slots[i] as number]
      if (isUnwanted(this.#refs[slot] ?? '')) continue
      times[this.#size] = time
      slots[this.#size++] = slot
    }
  }

  /** Visits the refs in the order of the heap, which has the first ones in front. */
  each(visit: Visit): boolean {
    for (let i = 0; i < this.#size; i++)
      if (visit(this.#refs[this.#slots[i] ?? 0] ?? '', this.#times[i] ?? 0) === false) return false
    return true
  }

  peek(): Placed | undefined {
    if (this.#size === 0) return undefined
    return { ref: this.#refs[this.#slots[0] ?? 0] ?? '', time: this.#times[0] ?? 0 }
  }

  next(): Ref | undefined {
    if (this.#size === 0) return undefined
    const ref = this.#refs[this.#slots[0] ?? 0]
    this.#size--
    if (this.#size > 0) this.#siftDown(0, this.#times[this.#size] ?? 0, this.#slots[this.#size] ?? 0)
    return ref
  }

  /** Always true: no ref waits for those that the scan did not reach, because their times are unknown. */
  isBeforeTheRest(): boolean {
    return true
  }

  #siftDown(from: number, time: number, slot: number): void {
    const [times, slots, size] = [this.#times, this.#slots, this.#size]
    let at = from
    for (let childAt = 2 * at + 1; childAt < size; childAt = 2 * at + 1) {
      let childTime = times[childAt] as number
      if (childAt + 1 < size) {
        const otherTime = times[childAt + 1] as number
        const isOther =
          otherTime < childTime ||
          (otherTime === childTime &&
            this.#isNamedBefore(slots[childAt + 1] as number, slots[childAt] as number))
        if (isOther) {
          childAt++
          childTime = otherTime
        }
      }
      const childSlot = slots[childAt] as number
      if (time < childTime || (time === childTime && this.#isNamedBefore(slot, childSlot))) break
      times[at] = childTime
      slots[at] = childSlot
      at = childAt
    }
    times[at] = time
    slots[at] = slot
  }

  /** True if ref A comes first by its name, for refs that became runnable at the same time. */
  #isNamedBefore(slotA: number, slotB: number): boolean {
    return COMPARE_TASKS.arrival(this.#refs[slotA] ?? '', 0, this.#refs[slotB] ?? '', 0) < 0
  }

  #grow(): void {
    const [times, slots] = [this.#times, this.#slots]
    this.#times = new Float64Array(2 * times.length)
    this.#slots = new Uint32Array(2 * slots.length)
    this.#times.set(times)
    this.#slots.set(slots)
  }
}
