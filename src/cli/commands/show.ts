import { closeSync, openSync } from 'node:fs'
import { SpooldError } from '../../base/errors.js'
import type { VarPair } from '../../protocol/packet.js'
import { toPairs } from '../../protocol/vars.js'
import { EAGER_BODY_BYTES, readBody } from '../../spool/claim.js'
import { type Inspection, inspectFile, readLocks } from '../../spool/inspect.js'
import { toByteString } from '../../task/ref.js'

export interface ShowOptions {
  readonly json?: boolean
}

/** `spoold show FILE`: the packet, decoded. Text is shown as text, everything else as base64. */
export function show(file: string, { json }: ShowOptions): number {
  const inspection = inspectFile(toByteString(file), readLocks(), Date.now())
  if (inspection.state === 'gone') throw new SpooldError('FILE_UNREADABLE', `${file} does not exist`)
  if (inspection.vars === undefined)
    throw new SpooldError(
      'PACKET_MALFORMED',
      `${file} is no spool packet (${inspection.state}): ${inspection.detail}`,
    )
  const pairs = toPairs(inspection.vars)
  const bodyBytes = inspection.bytes - inspection.bodyOffset
  if (json) console.log(JSON.stringify(asJson(file, inspection, pairs, bodyBytes), null, 2))
  else console.log(asText(file, inspection, pairs, bodyBytes))
  return 0
}

function asText(
  file: string,
  { state, dueAtMs, bytes }: Inspection,
  pairs: readonly VarPair[],
  bodyBytes: number,
): string {
  const head = [`${file}: ${state}, due ${new Date(dueAtMs).toISOString()}, ${bytes} bytes`]
  const vars = pairs.map(([key, value]) => `  ${printable(key)} = ${printable(value)}`)
  return [...head, ...vars, ...(bodyBytes > 0 ? [`  body: ${bodyBytes} bytes`] : [])].join('\n')
}

function asJson(file: string, inspection: Inspection, pairs: readonly VarPair[], bodyBytes: number) {
  const { state, dueAtMs, mtimeMs, bytes, mark, bodyOffset } = inspection
  return {
    file,
    state,
    due: new Date(dueAtMs).toISOString(),
    mtime: new Date(mtimeMs).toISOString(),
    bytes,
    mark,
    vars: pairs.map(([key, value]) => [encode(key), encode(value)]),
    bodyBytes,
    ...(bodyBytes > 0 && bodyBytes <= EAGER_BODY_BYTES
      ? { body: encode(readBodyOf(file, bodyOffset, bodyBytes)) }
      : {}),
  }
}

function readBodyOf(file: string, offset: number, bytes: number): Buffer {
  const fd = openSync(file, 'r')
  try {
    return readBody(fd, offset, bytes)
  } finally {
    closeSync(fd)
  }
}

/** A string where the bytes are UTF-8, else an object that says how they are written. */
function encode(bytes: Buffer): string | { base64: string } {
  return isUtf8(bytes) ? bytes.toString('utf8') : { base64: bytes.toString('base64') }
}

const MAX_SHOWN = 200

function printable(bytes: Buffer): string {
  const text = isUtf8(bytes) ? JSON.stringify(bytes.toString('utf8')) : `base64 ${bytes.toString('base64')}`
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}… (${bytes.length} bytes)` : text
}

function isUtf8(bytes: Buffer): boolean {
  return Buffer.from(bytes.toString('utf8')).equals(bytes)
}
