import type { Ref } from '../../../base/task/ref.js'

/** A Set or Map holds 2^24 entries and throws at the next; growing one of a million keeps the event loop for 50 ms. */
export const SHARDS = 64

/** FNV-1a and a cousin: 52 bits, so that of a million names no two are likely to clash. */
export function hash(ref: Ref): number {
  let high = 0x811c9dc5 | 0
  let low = 0x2f0b4c47 | 0
  for (let i = 0; i < ref.length; i++) {
    const byte = ref.charCodeAt(i)
    high = Math.imul(high ^ byte, 0x01000193)
    low = Math.imul(low ^ byte, 0x85ebca6b)
  }
  return (high >>> 6) * 2 ** 26 + (low >>> 6)
}

/** Something about each of millions of refs, by their hashes. */
export class HashMap<Value> implements Iterable<readonly [key: number, value: Value]> {
  readonly #shards: ReadonlyArray<Map<number, Value>> = Array.from({ length: SHARDS }, () => new Map())
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
    const shard = this.#shardOf(key)
    const before = shard.size
    shard.set(key, value)
    this.#size += shard.size - before
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

  *[Symbol.iterator](): Generator<readonly [key: number, value: Value]> {
    for (const shard of this.#shards) yield* shard
  }

  #shardOf(key: number): Map<number, Value> {
    return this.#shards[key % SHARDS] as Map<number, Value>
  }
}
