import type { Ref } from '../../task/ref.js'
import { COMPARE_TASKS } from '../task-order.js'
import type { Placed, Window } from './window.js'

const FIRST_CAPACITY = 1024

/**
 * By arrival: the first refs that a scan meets, so that a long backlog begins before it is listed, in the order in which
 * they became runnable. A binary heap of numbers, which are compared without a call and moved without a write barrier: the
 * heap of `base/heap` takes five times as long.
 */
export class ArrivalWindow implements Window {
  readonly #limit: number
  /** By slot. */
  #refs: Ref[] = []
  /** The heap: when each became runnable, and its slot. */
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

  add(ref: Ref, time: number): boolean {
    if (this.#size === this.#times.length) this.#grow()
    const slot = this.#refs.push(ref) - 1
    this.#siftUp(this.#size++, time, slot)
    return !this.isOverflowed
  }

  adopt(other: ArrivalWindow, isWanted: (ref: Ref) => boolean): void {
    for (let i = 0; i < other.#size; i++) {
      const ref = other.#refs[other.#slots[i] ?? 0] ?? ''
      if (isWanted(ref)) this.add(ref, other.#times[i] ?? 0)
    }
  }

  seal(isUnwanted: ((ref: Ref) => boolean) | undefined): void {
    if (isUnwanted === undefined) return
    const all = this.#size
    this.#size = 0
    for (let i = 0; i < all; i++) {
      const [slot = 0, time = 0] = [this.#slots[i], this.#times[i]]
      if (!isUnwanted(this.#refs[slot] ?? '')) this.#siftUp(this.#size++, time, slot)
    }
  }

  each(visit: (ref: Ref, time: number) => void): void {
    for (let i = 0; i < this.#size; i++) visit(this.#refs[this.#slots[i] ?? 0] ?? '', this.#times[i] ?? 0)
  }

  peek(): Placed | undefined {
    if (this.#size === 0) return undefined
    return { ref: this.#refs[this.#slots[0] ?? 0] ?? '', time: this.#times[0] ?? 0 }
  }

  next(): Ref | undefined {
    if (this.#size === 0) return undefined
    const ref = this.#refs[this.#slots[0] ?? 0]
    this.#size--
    if (this.#size > 0) this.#siftDown(this.#times[this.#size] ?? 0, this.#slots[this.#size] ?? 0)
    return ref
  }

  isBeforeTheRest(): boolean {
    return true
  }

  #siftUp(at: number, time: number, slot: number): void {
    const [times, slots] = [this.#times, this.#slots]
    while (at > 0) {
      const parentAt = (at - 1) >> 1
      const parentTime = times[parentAt] as number
      const parentSlot = slots[parentAt] as number
      if (parentTime < time || (parentTime === time && this.#isNamedBefore(parentSlot, slot))) break
      times[at] = parentTime
      slots[at] = parentSlot
      at = parentAt
    }
    times[at] = time
    slots[at] = slot
  }

  /** From the top. */
  #siftDown(time: number, slot: number): void {
    const [times, slots, size] = [this.#times, this.#slots, this.#size]
    let at = 0
    for (let childAt = 1; childAt < size; childAt = 2 * at + 1) {
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

  /** Of one time. */
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
