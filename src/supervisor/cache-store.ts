import { SpooldError } from '../base/errors.js'

/** All values together may take so much memory of the master. */
const MAX_BYTES = 64 * 1024 * 1024

interface Entry {
  readonly value: string
  /** On the clock of `performance.now()`. */
  readonly endsAt: number
}

/** What uwsgi.cache_* keeps: values by key, in caches by name, one character a byte. They live as long as the daemon. */
export class CacheStore {
  readonly #caches = new Map<string, Map<string, Entry>>()
  #bytes = 0

  /** @param values what to do, the cache's name, the key, the value, the seconds until it ends (0: never) */
  answer([what = '', cache = '', key = '', value = '', seconds = '0']: readonly string[]): readonly string[] {
    const entries = this.#caches.get(cache) ?? new Map<string, Entry>()
    this.#caches.set(cache, entries)
    const found = this.#get(entries, key)
    const expires = Number(seconds)
    switch (what) {
      case 'get':
        return found === undefined ? [] : [found]
      case 'set':
        return found === undefined ? this.#put(entries, key, value, expires) : []
      case 'update':
        return this.#put(entries, key, value, expires)
      case 'inc':
      case 'dec':
      case 'mul':
      case 'div':
        return this.#put(entries, key, packed(calculated(what, unpacked(found), BigInt(value))), expires)
      case 'del':
        return found === undefined ? [] : this.#remove(entries, key)
      case 'clear':
        for (const each of [...entries.keys()]) this.#remove(entries, each)
        return ['1']
      case 'keys':
        return [...entries.keys()].filter(each => this.#get(entries, each) !== undefined)
      default:
        throw new SpooldError('REQUEST_INVALID', `a cache cannot ${what}`)
    }
  }

  #get(entries: Map<string, Entry>, key: string): string | undefined {
    const entry = entries.get(key)
    if (entry === undefined || entry.endsAt > performance.now()) return entry?.value
    this.#remove(entries, key)
    return undefined
  }

  #put(entries: Map<string, Entry>, key: string, value: string, seconds: number): readonly string[] {
    this.#remove(entries, key)
    if (this.#bytes + key.length + value.length > MAX_BYTES)
      throw new SpooldError('REQUEST_INVALID', `the cache is full: it holds ${MAX_BYTES} bytes`)
    this.#bytes += key.length + value.length
    const endsAt = seconds > 0 ? performance.now() + seconds * 1000 : Number.POSITIVE_INFINITY
    entries.set(key, { value, endsAt })
    return ['1']
  }

  #remove(entries: Map<string, Entry>, key: string): readonly string[] {
    const entry = entries.get(key)
    if (entry !== undefined) this.#bytes -= key.length + entry.value.length
    entries.delete(key)
    return ['1']
  }
}

/** A 64-bit number as uWSGI keeps it: eight bytes, little endian. */
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
