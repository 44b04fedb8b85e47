/** A binary min-heap under a given order. `pop` and `push` cost O(log n); `peek` is free. */
export class Heap<T> {
  readonly #items: T[] = []
  readonly #before: (a: T, b: T) => boolean

  constructor(before: (a: T, b: T) => boolean) {
    this.#before = before
  }

  get size(): number {
    return this.#items.length
  }

  peek(): T | undefined {
    return this.#items[0]
  }

  push(item: T): void {
    const items = this.#items
    let at = items.length
    items.push(item)
    while (at > 0) {
      const parentAt = (at - 1) >> 1
      const parent = items[parentAt] as T
      if (!this.#before(item, parent)) break
      items[at] = parent
      at = parentAt
    }
    items[at] = item
  }

  pop(): T | undefined {
    const items = this.#items
    const top = items[0]
    const last = items.pop()
    if (items.length === 0 || last === undefined) return top
    let at = 0
    for (;;) {
      let childAt = 2 * at + 1
      if (childAt >= items.length) break
      if (childAt + 1 < items.length && this.#before(items[childAt + 1] as T, items[childAt] as T)) childAt++
      const child = items[childAt] as T
      if (!this.#before(child, last)) break
      items[at] = child
      at = childAt
    }
    items[at] = last
    return top
  }

  /** Keeps the `keep` first in order and returns the first of those that were dropped, if any were. */
  truncate(keep: number): T | undefined {
    if (this.#items.length <= keep) return undefined
    this.#items.sort((a, b) => (this.#before(a, b) ? -1 : this.#before(b, a) ? 1 : 0)) // a sorted array is a heap
    const dropped = this.#items[keep]
    this.#items.length = keep
    return dropped
  }
}
