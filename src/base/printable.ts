/** What a terminal obeys or does not show: control characters, orders about the direction of text, line separators. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu
/** The same in running text, where a tab and the joiners of many scripts are at home. */
const UNSAFE = /[^\P{Cc}\t]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu
const PLAIN = /^[\x20-\x7e]*$/

/** A name in which nobody can hide a line of his own, or orders to a terminal: such characters as `\x0a` or `\u202e`. */
export function printable(name: string): string {
  return PLAIN.test(name) ? name : name.replace(UNSEEN, escaped)
}

/** One line of text, whatever is in it. */
export function printableLine(text: string): string {
  return PLAIN.test(text) ? text : text.replace(UNSAFE, escaped)
}

/** Text of several lines: all but the first are indented, so that none of them can be taken for a line of its own. */
export function printableLines(text: string): string {
  if (PLAIN.test(text)) return text
  return text.split(/\r?\n/).map(printableLine).join('\n  ')
}

function escaped(char: string): string {
  const code = char.codePointAt(0) ?? 0
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, '0')}` : `\\u{${code.toString(16)}}`
}
