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
