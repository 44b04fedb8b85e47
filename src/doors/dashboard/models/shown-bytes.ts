import { isUtf8 } from 'node:buffer'

/** Bytes of a packet as people read them. */
export interface ShownBytes {
  readonly kind: 'text' | 'json' | 'hex'
  readonly text: string
  /** How many bytes there are in all. `isCut`: true if some are not in `text`. */
  readonly bytes: number
  readonly isCut: boolean
}

/** No more text than this is put into a page. More of a body is a download. */
const MOST_TEXT_BYTES = 64 * 1024
const MOST_HEX_BYTES = 4096
const HEX_PER_LINE = 16
/** Deeper JSON is shown as it is, because the indentation of its lines would make a page of megabytes. */
const MOST_JSON_DEPTH = 32

/**
 * Returns bytes as JSON if they are a whole object or list, as text if they are UTF-8, and otherwise in hexadecimal.
 *
 * @param bytes the beginning of the bytes
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

/** Returns the largest number of brackets that are open at once, including brackets in texts. */
function depthOf(json: string): number {
  let [open, most] = [0, 0]
  for (const [bracket] of json.matchAll(/[[\]{}]/g)) {
    open += bracket === '[' || bracket === '{' ? 1 : -1
    most = Math.max(most, open)
  }
  return most
}

/** Returns bytes without the character of up to four bytes that a cut may have split at their end. */
function withoutPartOfCharacter(bytes: Buffer): Buffer {
  for (let end = bytes.length; end > bytes.length - 4 && end > 0; end--)
    if (isUtf8(bytes.subarray(0, end))) return bytes.subarray(0, end)
  return bytes
}

/** Returns lines such as `00000010  68 65 6c 6c 6f …  hello…`, with 16 bytes each. */
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
