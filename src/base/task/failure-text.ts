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
  const lines = text.split('\n')
  const lastPlace = lines.findLastIndex(line => line.startsWith('  File "'))
  return lines.slice(lastPlace).find(line => /^\S/.test(line)) ?? first
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
  return cut + text.slice(cut.length - maxChars)
}
