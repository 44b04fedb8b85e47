import type { Ref } from '../../../base/task/ref.js'

/** The latest values of many refs: of the last `least` refs at least, and of twice as many at most. */
export class Recent<Value> {
  readonly #least: number
  #newer = new Map<Ref, Value>()
  #older = new Map<Ref, Value>()

  constructor(least: number) {
    this.#least = least
  }

  // the sizes are checked first, because even an empty map computes the hash of the name

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
