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

function escaped(char: string): string {
  const code = char.codePointAt(0) ?? 0
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, '0')}` : `\\u{${code.toString(16)}}`
}
