/**
 * A set of the few objects that something has at a time, in the order in which they were added. In V8, a `Set` whose members come
 * and go leaves a chain of its former tables: once one of those is old, all members since then are kept, and copied, until the next full
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

  /** Of those that it has when it begins. */
  [Symbol.iterator](): Iterator<T> {
    return this.#members.slice().values()
  }
}
