import { printable } from '../base/printable.js'

/** Bytes in JSON: a string where they are UTF-8, else an object that says how they are written. */
export function jsonBytes(bytes: Buffer): string | { base64: string } {
  return isUtf8(bytes) ? bytes.toString('utf8') : { base64: bytes.toString('base64') }
}

/** A file name for a terminal: what is no text in it as `\xff`. */
export function terminalName(name: Buffer): string {
  if (isUtf8(name)) return printable(name.toString('utf8'))
  return printable(name.toString('latin1')).replace(
    /[\xa0-\xff]/g,
    char => `\\x${char.charCodeAt(0).toString(16)}`,
  )
}

export function isUtf8(bytes: Buffer): boolean {
  return Buffer.from(bytes.toString('utf8')).equals(bytes)
}

const LAST_DATE_MS = 8.64e15

/** A packet may say any number, and a file that others wrote too; the years that a Date knows end. */
export function isoTime(ms: number): string {
  return new Date(Math.max(-LAST_DATE_MS, Math.min(ms, LAST_DATE_MS))).toISOString()
}
