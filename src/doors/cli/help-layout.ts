import { Help } from 'commander'

/** A longer term has a line of its own, so that its help is not squeezed into the rest of the line. */
const MAX_TERM_COLUMNS = 26
const INDENT = '  '

/** Lays help out for 80 columns: commander itself does not wrap beside its longest flag. */
export const HELP_LAYOUT = {
  padWidth(...[command, helper]: Parameters<Help['padWidth']>): number {
    return Math.min(MAX_TERM_COLUMNS, Help.prototype.padWidth.call(helper, command, helper))
  },
  formatItem(...[term, termWidth, description, helper]: Parameters<Help['formatItem']>): string {
    if (description === '') return INDENT + term
    const before = INDENT + ' '.repeat(termWidth) + INDENT
    const wrapped = helper.boxWrap(description, (helper.helpWidth ?? 80) - before.length)
    const text = wrapped.replaceAll('\n', `\n${before}`)
    const isLong = helper.displayWidth(term) > termWidth
    return isLong
      ? `${INDENT}${term}\n${before}${text}`
      : `${INDENT}${term.padEnd(termWidth)}${INDENT}${text}`
  },
}
