import { isUtf8 } from 'node:buffer'

/** Characters that a terminal obeys or does not show: control, text-direction and line-separator characters. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu
/** The same for running text, where tabs and the joiners of many scripts are legitimate. */
const UNSAFE = /[^\P{Cc}\t]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu
const PLAIN = /^[\x20-\x7e]*$/

/** Escapes a name (`\x0a`, `\u202e`), so that it cannot inject a line of output or a terminal command. */
export function printable(name: string): string {
  return PLAIN.test(name) ? name : name.replace(UNSEEN, escaped)
}

/** Escapes text, so that it stays one line. */
export function printableLine(text: string): string {
  return PLAIN.test(text) ? text : text.replace(UNSAFE, escaped)
}

/** Escapes text of several lines, and indents all but the first, so that none can pass for a line of our own. */
export function printableLines(text: string): string {
  if (PLAIN.test(text)) return text
  return text.split(/\r?\n/).map(printableLine).join('\n  ')
}

/** Characters that JSON leaves as they are in a string, and that a terminal obeys. */
const UNSAFE_IN_JSON = /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** Escapes JSON (`\u202e`), without changing what it means. */
export function printableJson(json: string): string {
  return json.replace(UNSAFE_IN_JSON, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** What is shown for one character: an escape of ours or of JSON, or itself. */
const SHOWN = /\\(?:x[\da-f]{2}|u\{[\da-f]+\}|u[\da-f]{4}|.)|./gsu

/** Cuts escaped text to this length, and never inside an escape; a cut one ends in `…`. */
export function cutPrintable(text: string, longest: number): string {
  if (text.length <= longest) return text
  let end = 0
  for (const [shown] of text.matchAll(SHOWN)) {
    if (end + shown.length >= longest) break
    end += shown.length
  }
  return `${text.slice(0, end)}…`
}

const BARE_WORD = /^[\w@%+=:,./-]+$/

/**
 * Returns a name as one word of a shell, with the same bytes: as it is, in quotes or, if not all of it can be seen, as
 * `$'\x1b'`.
 */
export function shellWord(name: string | Uint8Array): string {
  const bytes = Buffer.from(name)
  const text = bytes.toString()
  const isText = isUtf8(bytes)
  if (isText && BARE_WORD.test(text)) return text
  if (isText && printable(text) === text) return `'${text.replaceAll("'", "'\\''")}'`
  const quoted = (byte: number) => `\\x${byte.toString(16).padStart(2, '0')}`
  const shown = (byte: number) => {
    const char = String.fromCharCode(byte)
    if (char === "'" || char === '\\') return `\\${char}`
    return PLAIN.test(char) ? char : quoted(byte)
  }
  return `$'${Array.from(bytes, shown).join('')}'`
}

function escaped(char: string): string {
  const code = char.codePointAt(0) ?? 0
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, '0')}` : `\\u{${code.toString(16)}}`
}
