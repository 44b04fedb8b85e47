import { onDemand } from '../../base/on-demand.js'
import { printableLine } from '../../base/printable.js'

const loadStringWidth = onDemand<typeof import('string-width')>('string-width')
const ASCII = /^[\x20-\x7e]*$/
/** Texts are cut to this length before they are measured: it is more than any line shows, and measured fast. */
const MAX_MEASURED_CHARS = 1000

/** Returns one line that a terminal shows as it is: what it would obey is escaped, and so are tabs, which have no fixed width. */
export function cellText(text: string): string {
  const isLong = text.length > MAX_MEASURED_CHARS
  return printableLine(isLong ? `${text.slice(0, MAX_MEASURED_CHARS)}…` : text).replaceAll('\t', '\\t')
}

/** Returns the number of columns that a text without control characters takes: CJK and emoji take two, combining marks none. */
export function widthOf(text: string): number {
  return ASCII.test(text) ? text.length : loadStringWidth().default(text)
}

/** Cuts a text to a number of columns, between characters as people see them; a cut one ends in `…`. */
export function fit(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text
  let [cut, used] = ['', 0]
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    used += widthOf(segment)
    if (used > columns - 1) break
    cut += segment
  }
  return `${cut}…`
}

/** Pads a text with blanks to a number of columns. */
export function pad(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - widthOf(text)))
}
