/** A binary min-heap with a given order. `pop` and `push` cost O(log n), `peek` O(1). */
export class Heap<T> {
  #items: T[] = []
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

  /** The items, in no particular order. */
  values(): Iterable<T> {
    return this.#items
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
    items[0] = last
    this.topChanged()
    return top
  }

  /** Restores the heap after the top item's key has changed: half the cost of `pop` and `push`. */
  topChanged(): void {
    const items = this.#items
    const moved = items[0]
    if (moved === undefined) return
    let at = 0
    for (;;) {
      let childAt = 2 * at + 1
      if (childAt >= items.length) break
      if (childAt + 1 < items.length && this.#before(items[childAt + 1] as T, items[childAt] as T)) childAt++
      const child = items[childAt] as T
      if (!this.#before(child, moved)) break
      items[at] = child
      at = childAt
    }
    items[at] = moved
  }

  /**
   * Keeps the `keep` items that come first in the order, and returns the first of the dropped ones, if any. Costs O(n):
   * sorting a hundred thousand items would block the event loop for a tenth of a second.
   */
  truncate(keep: number): T | undefined {
    if (this.#items.length <= keep) return undefined
    const items = this.#items
    this.#items = []
    select(items, keep, this.#before)
    const dropped = items[keep]
    for (let i = 0; i < keep; i++) this.push(items[i] as T)
    return dropped
  }
}

/** Hoare's selection: afterwards `items[at]` is what a sort would put there, and no item before it sorts after it. */
function select<T>(items: T[], at: number, before: (a: T, b: T) => boolean): void {
  let [low, high] = [0, items.length - 1]
  while (low < high) {
    const pivot = items[(low + high) >> 1] as T
    let [left, right] = [low, high]
    while (left <= right) {
      while (before(items[left] as T, pivot)) left++
      while (before(pivot, items[right] as T)) right--
      if (left > right) break
      const moved = items[left] as T
      items[left++] = items[right] as T
      items[right--] = moved
    }
    if (at <= right) high = right
    else if (at >= left) low = left
    else return
  }
}

/** Returns what a sort would put at these places. Costs O(n), and a sort of these items alone; the items are rearranged. */
export function orderedPart<T>(
  items: T[],
  from: number,
  count: number,
  before: (a: T, b: T) => boolean,
): T[] {
  const end = Math.min(items.length, from + count)
  if (from >= end) return []
  select(items, end - 1, before)
  const head = items.slice(0, end)
  if (from > 0) select(head, from, before)
  return head.slice(from).sort((a, b) => (before(a, b) ? -1 : Number(before(b, a))))
}
