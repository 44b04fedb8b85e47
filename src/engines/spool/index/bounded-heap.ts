import { Heap } from '../../../base/heap.js'

/**
 * The first of many, in order. There is room for so many, and between two cuts for twice as many. Of the others is only known where they
 * begin: a listing finds them again.
 */
export class BoundedHeap<T> extends Heap<T> {
  readonly #isBefore: (a: T, b: T) => boolean
  readonly #room: number
  /** All that come before this one are here; undefined: all are. */
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
