/** A FIFO queue without the O(n) cost of `Array.shift`. */
export class Queue<T> {
  #items: T[] = []
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
    if (this.#head < this.#items.length) this.#head++
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
