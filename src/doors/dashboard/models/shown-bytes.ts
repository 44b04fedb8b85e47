import { isUtf8 } from 'node:buffer'

/** Bytes of a packet as people read them. */
export interface ShownBytes {
  readonly kind: 'text' | 'json' | 'hex'
  readonly text: string
  /** How many there are, and whether some are left out. */
  readonly bytes: number
  readonly isCut: boolean
}

/** More is not put into a page; the whole body is a download. */
const MOST_TEXT_BYTES = 64 * 1024
const MOST_HEX_BYTES = 4096
const HEX_PER_LINE = 16
/** Each line of what is deeper would begin with so many more spaces. */
const MOST_JSON_DEPTH = 32

/**
 * As JSON if it is an object or a list, as text if it is UTF-8, else in hexadecimal.
 *
 * @param bytes the beginning
 * @param total how many bytes there are in all
 */
export function showBytes(bytes: Buffer, total = bytes.length): ShownBytes {
  const isWhole = bytes.length === total && total <= MOST_TEXT_BYTES
  if (isWhole && isUtf8(bytes)) {
    const text = bytes.toString('utf8')
    const json = prettyJson(text)
    return json === undefined
      ? { kind: 'text', text, bytes: total, isCut: false }
      : { kind: 'json', text: json, bytes: total, isCut: false }
  }
  const beginning = withoutPartOfCharacter(bytes.subarray(0, MOST_TEXT_BYTES))
  if (isUtf8(beginning) && beginning.length > 0)
    return { kind: 'text', text: beginning.toString('utf8'), bytes: total, isCut: true }
  const shown = bytes.subarray(0, MOST_HEX_BYTES)
  return { kind: 'hex', text: hexDump(shown), bytes: total, isCut: shown.length < total }
}

function prettyJson(text: string): string | undefined {
  if (!/^\s*[[{]/.test(text) || depthOf(text) > MOST_JSON_DEPTH) return undefined
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return undefined
  }
}

/** How many brackets are open at once, with those in texts. */
function depthOf(json: string): number {
  let [open, most] = [0, 0]
  for (const [bracket] of json.matchAll(/[[\]{}]/g)) {
    open += bracket === '[' || bracket === '{' ? 1 : -1
    most = Math.max(most, open)
  }
  return most
}

/** A cut may go through a character of up to four bytes. */
function withoutPartOfCharacter(bytes: Buffer): Buffer {
  for (let end = bytes.length; end > bytes.length - 4 && end > 0; end--)
    if (isUtf8(bytes.subarray(0, end))) return bytes.subarray(0, end)
  return bytes
}

/** `00000010  68 65 6c 6c 6f …  hello…`, as `xxd` prints it. */
function hexDump(bytes: Buffer): string {
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += HEX_PER_LINE) {
    const row = bytes.subarray(at, at + HEX_PER_LINE)
    const hex = Array.from(row, byte => byte.toString(16).padStart(2, '0')).join(' ')
    const text = row.toString('latin1').replace(/[^\x20-\x7e]/g, '.')
    lines.push(`${at.toString(16).padStart(8, '0')}  ${hex.padEnd(HEX_PER_LINE * 3)} ${text}`)
  }
  return lines.join('\n')
}
