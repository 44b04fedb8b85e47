import { Heap } from '../../../base/heap.js'

/**
 * The first items of many, in order. A cut leaves `room` of them, and comes when there are twice as many. Of the items that
 * were cut off, only the first is remembered (`horizon`): a listing finds them again.
 */
export class BoundedHeap<T> extends Heap<T> {
  readonly #isBefore: (a: T, b: T) => boolean
  readonly #room: number
  /** Every item that comes before this one is here; undefined if all items are here. */
  horizon: T | undefined

  constructor(isBefore: (a: T, b: T) => boolean, room: number) {
    super(isBefore)
    this.#isBefore = isBefore
    this.#room = room
  }

  add(item: T): void {
    if (this.horizon !== undefined && !this.#isBefore(item, this.horizon)) return
    this.push(item)
    if (this.size >= 2 * this.#room) this.horizon = this.truncate(this.#room)
  }
}
