import { CAUSE } from './stack.js'

const MAX_CAUSES_IN_LINE = 3
/** Of the text of a failure, wherever it goes to. */
export const MAX_FAILURE_CHARS = 65_536

/** What Python begins the text of an error with. The error itself is below the places; everywhere else it is above them. */
const TRACEBACK = 'Traceback (most recent call last):'

/** Of the text of a failure, the one line that says what went wrong. */
export function failureLine(text: string): string {
  const [first = ''] = text.split('\n', 1)
  if (!first.endsWith(TRACEBACK)) return withCauses(first, text)
  const at = errorIn(text)
  return at < 0 ? first : (text.slice(at).split('\n', 1)[0] ?? '')
}

/** Where a traceback's own error begins: below its last place, at the margin; -1: nowhere. */
function errorIn(text: string): number {
  const from = text.indexOf('\n', text.lastIndexOf('\n  File "') + 1)
  const found = from < 0 ? -1 : text.slice(from).search(/\n\S/)
  return found < 0 ? -1 : from + found + 1
}

/** `TypeError: fetch failed: connect ECONNREFUSED 127.0.0.1:80` */
function withCauses(first: string, text: string): string {
  const causes = text.split(CAUSE).slice(1, 1 + MAX_CAUSES_IN_LINE)
  const reasons = causes.map(cause => (cause.split('\n', 1)[0] ?? '').replace(/^Error: /, ''))
  return reasons.reduce(
    (line, reason) => (line.endsWith(reason) ? line : `${line}: ${reason}`),
    first.replace(/: $/, ''),
  )
}

/** The text of a failure, with what went wrong in it, however deep the call was. */
export function failureText(text: string, maxChars: number): string {
  if (text.length <= maxChars || !text.startsWith(TRACEBACK)) return text.slice(0, maxChars)
  const cut = `${TRACEBACK}\n  …\n`
  const at = errorIn(text)
  const from = text.length - (maxChars - cut.length)
  // of a message that is longer, its beginning, which has its class
  return (cut + text.slice(at < 0 ? from : Math.min(from, at))).slice(0, maxChars)
}
