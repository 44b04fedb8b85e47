import { SpooldError } from '../../base/errors.js'

/** The most memory that all entries together may take in the master. */
const MAX_BYTES = 64 * 1024 * 1024
/** Memory per entry besides the characters of its key and value; an estimate. */
const ENTRY_BYTES = 150
/** While there is room, ended entries are removed at most this often, because all entries are looked at. */
const SWEEP_MS = 1000

interface Entry {
  readonly value: string
  /** On the clock of `performance.now()`. */
  readonly endsAt: number
}

/**
 * The store behind uwsgi.cache_*: values by key, in named caches, one character per byte. It lives as long as the daemon.
 */
export class CacheStore {
  readonly #caches = new Map<string, Map<string, Entry>>()
  #bytes = 0
  /** The earliest time at which an entry expires. */
  #nextEndAt = Number.POSITIVE_INFINITY
  #sweptAt = 0

  /** @param values the operation, the cache's name, the key, the value, and the seconds until it expires (0: never) */
  answer([what = '', cache = '', key = '', value = '', seconds = '0']: readonly string[]): readonly string[] {
    const entries = this.#caches.get(cache) ?? new Map<string, Entry>()
    const found = this.#get(cache, key)
    const expires = Number(seconds)
    switch (what) {
      case 'get':
        return found === undefined ? [] : [found]
      case 'set':
        return found === undefined ? this.#put(cache, key, value, expires) : []
      case 'update':
        return this.#put(cache, key, value, expires)
      case 'inc':
      case 'dec':
      case 'mul':
      case 'div':
        return this.#put(cache, key, packed(calculated(what, unpacked(found), BigInt(value))), expires)
      case 'del':
        return found === undefined ? [] : this.#remove(cache, key)
      case 'clear':
        for (const each of [...entries.keys()]) this.#remove(cache, each)
        return ['1']
      case 'keys':
        return [...entries.keys()].filter(each => this.#get(cache, each) !== undefined)
      default:
        throw new SpooldError('REQUEST_INVALID', `a cache cannot ${what}`)
    }
  }

  #get(cache: string, key: string): string | undefined {
    const entry = this.#caches.get(cache)?.get(key)
    if (entry === undefined || entry.endsAt > performance.now()) return entry?.value
    this.#remove(cache, key)
    return undefined
  }

  #put(cache: string, key: string, value: string, seconds: number): readonly string[] {
    const bytes = key.length + value.length + ENTRY_BYTES
    this.#remove(cache, key)
    const isDue = performance.now() >= this.#sweptAt + SWEEP_MS
    if (isDue || this.#bytes + bytes > MAX_BYTES) this.#removeEnded()
    if (this.#bytes + bytes > MAX_BYTES)
      throw new SpooldError(
        'REQUEST_INVALID',
        `the cache is full: expected at most ${MAX_BYTES} bytes in all caches, got ${this.#bytes + bytes}; delete entries, or let them expire`,
      )
    this.#bytes += bytes
    const endsAt = seconds > 0 ? performance.now() + seconds * 1000 : Number.POSITIVE_INFINITY
    this.#nextEndAt = Math.min(this.#nextEndAt, endsAt)
    const entries = this.#caches.get(cache) ?? new Map<string, Entry>()
    this.#caches.set(cache, entries.set(key, { value, endsAt }))
    return ['1']
  }

  /**
   * Removes the entries that have expired, because nobody may ask for them again. Does nothing before the first one has expired, so
   * that a full cache is not searched for each entry that does not fit.
   */
  #removeEnded(): void {
    const now = performance.now()
    this.#sweptAt = now
    if (now < this.#nextEndAt) return
    this.#nextEndAt = Number.POSITIVE_INFINITY
    for (const [cache, entries] of this.#caches)
      for (const [key, { endsAt }] of entries)
        if (endsAt <= now) this.#remove(cache, key)
        else this.#nextEndAt = Math.min(this.#nextEndAt, endsAt)
  }

  #remove(cache: string, key: string): readonly string[] {
    const entries = this.#caches.get(cache)
    const entry = entries?.get(key)
    if (entries === undefined || entry === undefined) return ['1']
    this.#bytes -= key.length + entry.value.length + ENTRY_BYTES
    entries.delete(key)
    if (entries.size === 0) this.#caches.delete(cache)
    return ['1']
  }
}

/** A 64-bit number in uWSGI's encoding: eight bytes, little-endian. */
function unpacked(value: string | undefined): bigint {
  return value !== undefined && value.length >= 8 ? Buffer.from(value, 'latin1').readBigInt64LE(0) : 0n
}

function packed(value: bigint): string {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt.asIntN(64, value))
  return bytes.toString('latin1')
}

function calculated(what: 'inc' | 'dec' | 'mul' | 'div', a: bigint, b: bigint): bigint {
  switch (what) {
    case 'inc':
      return a + b
    case 'dec':
      return a - b
    case 'mul':
      return a * b
    case 'div':
      return b === 0n ? 0n : a / b
  }
}
