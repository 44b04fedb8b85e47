import { SpooldError } from '../../base/errors.js'
import { HEADER_BYTES, MAX_BLOCK_BYTES, SPOOL_MODIFIER, writeHeader } from './header.js'

/** One key and its value. Keys are 1–65,535 bytes, values 0–65,535; both may contain any byte. */
export type VarPair = readonly [key: Buffer, value: Buffer]

/**
 * Encodes one packet, without a body.
 *
 * @throws SpooldError REQUEST_INVALID with `details.key` and `details.bytes` if a key, a value or the sum is too long.
 *   uWSGI silently cuts a long value to its length modulo 65,536.
 */
export function encodePacket(vars: readonly VarPair[], modifier1 = SPOOL_MODIFIER): Buffer {
  const blockBytes = checkedBlockBytes(vars)
  const packet = Buffer.allocUnsafe(HEADER_BYTES + blockBytes)
  writeHeader(packet, modifier1, blockBytes)
  let at = HEADER_BYTES
  for (const [key, value] of vars) at = append(packet, append(packet, at, key), value)
  return packet
}

/** Writes a length and that many bytes. @returns the offset after them */
function append(packet: Buffer, at: number, bytes: Buffer): number {
  packet[at] = bytes.length
  packet[at + 1] = bytes.length >> 8
  packet.set(bytes, at + 2)
  return at + 2 + bytes.length
}

/**
 * Returns the size of the block with these pairs, in bytes.
 *
 * @throws SpooldError REQUEST_INVALID if no packet can hold them
 */
function checkedBlockBytes(vars: readonly VarPair[]): number {
  let bytes = 0
  for (const pair of vars) bytes += checkedPairBytes(pair)
  if (bytes > MAX_BLOCK_BYTES) throw tooLong('', bytes, `all keys and values together take ${bytes} bytes`)
  return bytes
}

function checkedPairBytes([key, value]: VarPair): number {
  if (key.length === 0)
    throw new SpooldError('REQUEST_INVALID', 'a key is empty; the format has no way to write that', {
      details: { key: '' },
    })
  if (key.length > MAX_BLOCK_BYTES)
    throw tooLong(key.toString('utf8', 0, 64), key.length, `a key takes ${key.length} bytes`)
  if (value.length > MAX_BLOCK_BYTES)
    throw tooLong(key.toString(), value.length, `the value of "${key}" takes ${value.length} bytes`)
  return 4 + key.length + value.length
}

function tooLong(key: string, bytes: number, what: string): SpooldError {
  return new SpooldError(
    'REQUEST_INVALID',
    `${what}; a packet holds ${MAX_BLOCK_BYTES}. Put large data in the body, which has no such limit`,
    { details: { key, bytes, limit: MAX_BLOCK_BYTES } },
  )
}
