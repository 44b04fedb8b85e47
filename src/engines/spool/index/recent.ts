import type { Ref } from '../../../base/task/ref.js'

/** What was said last of each of many refs: of so many at least, and of twice as many at most. */
export class Recent<Value> {
  readonly #least: number
  #newer = new Map<Ref, Value>()
  #older = new Map<Ref, Value>()

  constructor(least: number) {
    this.#least = least
  }

  // an empty map computes the hash of each name, too

  get(ref: Ref): Value | undefined {
    const value = this.#newer.size === 0 ? undefined : this.#newer.get(ref)
    return value !== undefined || this.#older.size === 0 ? value : this.#older.get(ref)
  }

  set(ref: Ref, value: Value): void {
    if (this.#newer.size >= this.#least) {
      this.#older = this.#newer
      this.#newer = new Map()
    }
    this.#newer.set(ref, value)
  }

  delete(ref: Ref): void {
    if (this.#newer.size > 0) this.#newer.delete(ref)
    if (this.#older.size > 0) this.#older.delete(ref)
  }
}
