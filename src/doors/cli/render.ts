import { isUtf8 } from 'node:buffer'
import { printable } from '../../base/printable.js'
import { type Ref, toByteString } from '../../base/task/ref.js'

/** Returns bytes for JSON: a string if they are UTF-8, else an object with their base64. */
export function jsonBytes(bytes: Buffer): string | { base64: string } {
  return isUtf8(bytes) ? bytes.toString('utf8') : { base64: bytes.toString('base64') }
}

/** Returns a file name for a terminal, with bytes that are not UTF-8 written as `\xff`. */
export function terminalName(name: Buffer): string {
  if (isUtf8(name)) return printable(name.toString('utf8'))
  return printable(name.toString('latin1')).replace(
    /[\xa0-\xff]/g,
    char => `\\x${char.charCodeAt(0).toString(16)}`,
  )
}

export function pathOf(directory: string, ref: Ref): string {
  return terminalName(Buffer.from(`${toByteString(directory)}/${ref}`, 'latin1'))
}

const LAST_DATE_MS = 8.64e15

/** Formats a time. Clamps it to the range of a Date, because packets and files written by others may contain any number. */
export function isoTime(ms: number): string {
  return new Date(Math.max(-LAST_DATE_MS, Math.min(ms, LAST_DATE_MS))).toISOString()
}

/** `3 s`, `5 m`, `2 h`, `4 d`: one unit is enough. */
export function shortDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} m`
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`
}

/** `1,234` */
export function countText(count: number): string {
  return count.toLocaleString('en')
}

/** Returns a line of bars. @param blocks the characters of the bars, from that of 0 to that of `most` */
export function bars(values: readonly number[], most: number, blocks: string): string {
  const last = blocks.length - 1
  return values.map(value => blocks[most === 0 ? 0 : Math.ceil((value * last) / most)] ?? '').join('')
}
