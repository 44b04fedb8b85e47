import { counted } from '../../base/counted.js'
import type { VarPair } from './packet.js'

/**
 * The block of a packet, parsed without copying: `text` has one character per byte (latin1), `cuts` has four positions per
 * pair: key start, key end, value start, value end.
 */
export interface Vars {
  readonly text: string
  readonly cuts: readonly number[]
}

/** Why a block is not a list of pairs, for people. */
interface VarsFault {
  readonly fault: string
}

/**
 * Parses `text[start..end)`, with the checks of uwsgi_hooked_parse (core/protocol.c): a key is never empty, and a block
 * that ends within a length, a key or a value is malformed.
 */
export function parseVars(text: string, start: number, end: number): Vars | VarsFault {
  const cuts: number[] = []
  let at = start
  while (at < end) {
    if (at + 2 >= end) return fault(at - start, 'the block ends inside a key length')
    const keyStart = at + 2
    const keyEnd = keyStart + u16le(text, at)
    if (keyEnd === keyStart) return fault(at - start, 'a key is empty')
    if (keyEnd > end)
      return fault(at - start, `a key of ${counted(keyEnd - keyStart, 'byte')} runs past the end`)
    const valueStart = keyEnd + 2
    if (valueStart > end) return fault(keyEnd - start, 'the block ends inside a value length')
    const valueEnd = valueStart + u16le(text, keyEnd)
    if (valueEnd > end)
      return fault(keyEnd - start, `a value of ${counted(valueEnd - valueStart, 'byte')} runs past the end`)
    cuts.push(keyStart, keyEnd, valueStart, valueEnd)
    at = valueEnd
  }
  return { text, cuts }
}

function u16le(text: string, at: number): number {
  return text.charCodeAt(at) | (text.charCodeAt(at + 1) << 8)
}

function fault(offset: number, what: string): VarsFault {
  return { fault: `${what} (at byte ${offset} of the block)` }
}

/** Returns the exact bytes of every pair, in order, with duplicates. */
export function toPairs({ text, cuts }: Vars): VarPair[] {
  const pairs: VarPair[] = []
  for (let i = 0; i < cuts.length; i += 4)
    pairs.push([
      Buffer.from(text.slice(cuts[i], cuts[i + 1]), 'latin1'),
      Buffer.from(text.slice(cuts[i + 2], cuts[i + 3]), 'latin1'),
    ])
  return pairs
}

/** Returns the pairs, in order, with duplicates; one character per byte. */
export function valuesOf({ text, cuts }: Vars): Array<{ readonly key: string; readonly value: string }> {
  const pairs = []
  for (let i = 0; i < cuts.length; i += 4)
    pairs.push({ key: text.slice(cuts[i], cuts[i + 1]), value: text.slice(cuts[i + 2], cuts[i + 3]) })
  return pairs
}

const NOT_ASCII = /[\x80-\xff]/

/**
 * Returns the pairs as UTF-8 strings in an object without a prototype, so that `__proto__` is an ordinary key. The last of a
 * repeated key wins, as in every uWSGI language.
 */
export function toDictionary({ text, cuts }: Vars): Record<string, string> {
  const dictionary: Record<string, string> = Object.create(null)
  const isAscii = !NOT_ASCII.test(text)
  for (let i = 0; i < cuts.length; i += 4) {
    const key = text.slice(cuts[i], cuts[i + 1])
    const value = text.slice(cuts[i + 2], cuts[i + 3])
    if (isAscii) dictionary[key] = value
    else dictionary[utf8(key)] = utf8(value)
  }
  return dictionary
}

/** Returns the value of the last pair with this key, as handlers see it; one character per byte. Undefined if there is none. */
export function lastValue({ text, cuts }: Vars, key: string): string | undefined {
  for (let i = cuts.length - 4; i >= 0; i -= 4) {
    const start = cuts[i] ?? 0
    if ((cuts[i + 1] ?? 0) - start === key.length && text.startsWith(key, start))
      return text.slice(cuts[i + 2], cuts[i + 3])
  }
  return undefined
}

function utf8(bytes: string): string {
  return NOT_ASCII.test(bytes) ? Buffer.from(bytes, 'latin1').toString('utf8') : bytes
}
