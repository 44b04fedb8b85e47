import { closeSync, openSync } from 'node:fs'
import { SpooldError } from '../../base/errors.js'
import { printable } from '../../base/printable.js'
import type { VarPair } from '../../protocol/packet.js'
import { toPairs } from '../../protocol/vars.js'
import { EAGER_BODY_BYTES, readBody } from '../../spool/claim.js'
import { type Inspection, inspectFile, readLocks } from '../../spool/inspect.js'
import { toByteString } from '../../task/ref.js'
import { isoTime, isUtf8, jsonBytes } from '../bytes.js'

export interface ShowOptions {
  readonly json?: boolean
}

/** What a terminal gets of one value. */
const MAX_SHOWN_CHARS = 200

/** `spoold show FILE`: the packet, decoded. Text is shown as text, everything else as base64. */
export function show(file: string, { json }: ShowOptions): number {
  const inspection = inspectFile(toByteString(file), readLocks(), Date.now())
  const { state, detail, vars } = inspection
  if (state === 'gone') throw new SpooldError('FILE_UNREADABLE', `${file} does not exist`)
  if (state === 'unreadable') throw new SpooldError('FILE_UNREADABLE', `${file} cannot be read: ${detail}`)
  if (vars === undefined)
    throw new SpooldError('PACKET_MALFORMED', `${file} is no spool packet (${state}): ${detail}`)
  const pairs = toPairs(vars)
  if (json) console.log(JSON.stringify(asJson(file, inspection, pairs), null, 2))
  else console.log(asText(file, inspection, pairs))
  return 0
}

function asText(file: string, inspection: Inspection, pairs: readonly VarPair[]): string {
  const { state, dueAtMs, bytes, bodyOffset } = inspection
  const lines = [`${printable(file)}: ${state}, due ${isoTime(dueAtMs)}, ${bytes} bytes`]
  for (const [key, value] of pairs) lines.push(`  ${shown(key)} = ${shown(value)}`)
  const bodyBytes = bytes - bodyOffset
  if (bodyBytes > EAGER_BODY_BYTES) lines.push(`  body: ${bodyBytes} bytes, from byte ${bodyOffset}`)
  else if (bodyBytes > 0) lines.push(`  body: ${shown(readBodyOf(file, inspection))} (${bodyBytes} bytes)`)
  return lines.join('\n')
}

function asJson(file: string, inspection: Inspection, pairs: readonly VarPair[]) {
  const { state, dueAtMs, mtimeMs, bytes, mark, bodyOffset } = inspection
  const bodyBytes = bytes - bodyOffset
  const isSmall = bodyBytes > 0 && bodyBytes <= EAGER_BODY_BYTES
  return {
    file,
    state,
    due: isoTime(dueAtMs),
    mtime: isoTime(mtimeMs),
    bytes,
    mark,
    // pairs: a packet may have a key twice, and any key
    vars: pairs.map(([key, value]) => [jsonBytes(key), jsonBytes(value)]),
    bodyBytes,
    bodyOffset,
    ...(isSmall ? { body: jsonBytes(readBodyOf(file, inspection)) } : {}),
  }
}

function readBodyOf(file: string, { bytes, bodyOffset }: Inspection): Buffer {
  const fd = openSync(file, 'r')
  try {
    return readBody(fd, bodyOffset, bytes - bodyOffset)
  } finally {
    closeSync(fd)
  }
}

function shown(bytes: Buffer): string {
  const text = isUtf8(bytes)
    ? printable(JSON.stringify(bytes.toString('utf8')))
    : `base64 ${bytes.toString('base64')}`
  return text.length > MAX_SHOWN_CHARS ? `${text.slice(0, MAX_SHOWN_CHARS)}… (${bytes.length} bytes)` : text
}
