/** A FIFO queue without the O(n) cost of `Array.shift`. */
export class Queue<T> {
  #items: Array<T | undefined> = []
  #head = 0

  get size(): number {
    return this.#items.length - this.#head
  }

  /** @param place 0 is the first one */
  peek(place = 0): T | undefined {
    return this.#items[this.#head + place]
  }

  push(item: T): void {
    this.#items.push(item)
  }

  pop(): T | undefined {
    const item = this.#items[this.#head]
    if (this.#head < this.#items.length) this.#items[this.#head++] = undefined // or the item would stay in memory
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  clear(): void {
    this.#items = []
    this.#head = 0
  }

  *[Symbol.iterator](): Generator<T> {
    for (let i = this.#head; i < this.#items.length; i++) yield this.#items[i] as T
  }
}

/**
 * A set of objects, few at a time, in the order in which they were added. In V8, a `Set` whose members come and go leaves a
 * chain of its former tables: once one of these is old, all members since then are kept, and copied, until the next full
 * collection.
 */
export class ArraySet<T extends object> implements Iterable<T> {
  readonly #members: T[] = []

  get size(): number {
    return this.#members.length
  }

  has(member: T): boolean {
    return this.#members.includes(member)
  }

  add(member: T): void {
    if (!this.has(member)) this.#members.push(member)
  }

  delete(member: T): void {
    const place = this.#members.indexOf(member)
    if (place === this.#members.length - 1) this.#members.pop()
    else if (place >= 0) this.#members.splice(place, 1)
  }

  /** Iterates over the members that the set has when the iteration begins. */
  [Symbol.iterator](): Iterator<T> {
    return this.#members.slice().values()
  }
}
