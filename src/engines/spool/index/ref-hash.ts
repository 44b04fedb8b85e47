import type { Ref } from '../../../base/task/ref.js'

/** The number of tables: growing one table of a million keys blocks the event loop for 50 ms. */
const SHARDS = 64
const LEAST_PLACES = 8
/** Marks a free place: no hash is 0. */
const FREE = 0
/** The seeds of the hash, drawn anew by each process, so that nobody can choose names whose hashes are the same. */
const [HIGH, LOW] = [randomSeed(), randomSeed()]

function randomSeed(): number {
  return (Math.random() * 2 ** 32) | 0
}

/** Returns a hash of 52 bits, by FNV-1a and a variant of it, so that no two of a million names are likely to clash. */
export function hash(ref: Ref): number {
  let [high, low] = [HIGH, LOW]
  for (let i = 0; i < ref.length; i++) {
    const byte = ref.charCodeAt(i)
    high = Math.imul(high ^ byte, 0x01000193)
    low = Math.imul(low ^ byte, 0x85ebca6b)
  }
  return (high >>> 6) * 2 ** 26 + (low >>> 6) || 1
}

/**
 * The values of millions of refs, by the refs' hashes, at some 35 bytes each. A Map makes an object of each such number, and
 * takes twice as long. It tells which keys a listing has not met.
 */
export class HashMap<Value> {
  readonly #shards: ReadonlyArray<Shard<Value>> = Array.from({ length: SHARDS }, () => new Shard())
  #size = 0

  get size(): number {
    return this.#size
  }

  has(key: number): boolean {
    return this.#shardOf(key).has(key)
  }

  get(key: number): Value | undefined {
    return this.#shardOf(key).get(key)
  }

  set(key: number, value: Value): void {
    if (this.#shardOf(key).set(key, value)) this.#size++
  }

  /** Takes note that a listing begins, which has met no key. A key that is set during the listing counts as met. */
  beginListing(): void {
    for (const shard of this.#shards) shard.beginListing()
  }

  met(key: number): void {
    this.#shardOf(key).met(key)
  }

  /** Yields the keys that were not met since the listing began. They may be deleted meanwhile. */
  *unmet(): Generator<number> {
    for (const shard of this.#shards) yield* shard.unmet()
  }

  delete(key: number): boolean {
    const wasThere = this.#shardOf(key).delete(key)
    if (wasThere) this.#size--
    return wasThere
  }

  clear(): void {
    for (const shard of this.#shards) shard.clear()
    this.#size = 0
  }

  /** Yields the wanted keys, which may be deleted meanwhile. To yield all of them one by one would take five times as long. */
  *keys(isWanted: (key: number, value: Value) => boolean): Generator<number> {
    for (const shard of this.#shards) yield* shard.keys(isWanted)
  }

  #shardOf(key: number): Shard<Value> {
    return this.#shards[key & (SHARDS - 1)] as Shard<Value>
  }
}

/** A table with open addressing: a key is at the place that its bits say, or behind it, with no free place in between. */
class Shard<Value> {
  /** A key that a listing has not met is negative. */
  #keys = new Float64Array(LEAST_PLACES)
  #values: Array<Value | undefined> = []
  #size = 0

  has(key: number): boolean {
    return this.#keys[this.#find(key)] !== FREE
  }

  get(key: number): Value | undefined {
    return this.#values[this.#find(key)]
  }

  /** @returns true if the key is new */
  set(key: number, value: Value): boolean {
    const isNew = !this.has(key)
    if (isNew && 4 * ++this.#size > 3 * this.#keys.length) this.#grow()
    const at = this.#find(key)
    this.#keys[at] = key
    this.#values[at] = value
    return isNew
  }

  beginListing(): void {
    const keys = this.#keys
    for (let at = 0; at < keys.length; at++) keys[at] = -Math.abs(keys[at] ?? FREE)
  }

  met(key: number): void {
    this.#keys[this.#find(key)] &&= key
  }

  unmet(): number[] {
    const found: number[] = []
    for (let at = 0; at < this.#keys.length; at++) {
      const key = this.#keys[at] ?? FREE
      if (key < 0) found.push(-key)
    }
    return found
  }

  delete(key: number): boolean {
    const [keys, values] = [this.#keys, this.#values]
    let gap = this.#find(key)
    if (keys[gap] === FREE) return false
    // keys whose search would end at the gap move up into it
    for (let at = this.#after(gap); keys[at] !== FREE; at = this.#after(at)) {
      const behind = (from: number) => (at - from) & (keys.length - 1)
      if (behind(this.#placeOf(Math.abs(keys[at] ?? FREE))) < behind(gap)) continue
      keys[gap] = keys[at] ?? FREE
      values[gap] = values[at]
      gap = at
    }
    keys[gap] = FREE
    values[gap] = undefined
    if (--this.#size === 0) this.clear()
    return true
  }

  clear(): void {
    this.#keys = new Float64Array(LEAST_PLACES)
    this.#values = []
    this.#size = 0
  }

  keys(isWanted: (key: number, value: Value) => boolean): number[] {
    const found: number[] = []
    for (let at = 0; at < this.#keys.length; at++) {
      const key = Math.abs(this.#keys[at] ?? FREE)
      if (key !== FREE && isWanted(key, this.#values[at] as Value)) found.push(key)
    }
    return found
  }

  #grow(): void {
    const [keys, values] = [this.#keys, this.#values]
    this.#keys = new Float64Array(2 * keys.length)
    this.#values = new Array(2 * keys.length)
    for (const [from, key] of keys.entries()) {
      if (key === FREE) continue
      const at = this.#find(Math.abs(key))
      this.#keys[at] = key
      this.#values[at] = values[from]
    }
  }

  /** Returns the place of the key, or else the free place for it. */
  #find(key: number): number {
    let at = this.#placeOf(key)
    while (Math.abs(this.#keys[at] ?? FREE) !== key && this.#keys[at] !== FREE) at = this.#after(at)
    return at
  }

  /** Returns the place that the key's bits say. The lowest bits are left out, because they say in which shard the key is. */
  #placeOf(key: number): number {
    return (key >>> 6) & (this.#keys.length - 1)
  }

  #after(at: number): number {
    return (at + 1) & (this.#keys.length - 1)
  }
}
