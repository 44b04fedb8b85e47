/** What Python begins the text of an error with. The error itself is below the places; everywhere else it is above them. */
const TRACEBACK = 'Traceback (most recent call last):'

/** Of the text of a failure, the one line that says what went wrong. */
export function failureLine(text: string): string {
  const [first = ''] = text.split('\n', 1)
  if (!first.endsWith(TRACEBACK)) return first
  const lines = text.split('\n')
  const lastPlace = lines.findLastIndex(line => line.startsWith('  File "'))
  return lines.slice(lastPlace).find(line => /^\S/.test(line)) ?? first
}

/** The text of a failure, with what went wrong in it, however deep the call was. */
export function failureText(text: string, maxChars: number): string {
  if (text.length <= maxChars || !text.startsWith(TRACEBACK)) return text.slice(0, maxChars)
  const cut = `${TRACEBACK}\n  …\n`
  return cut + text.slice(cut.length - maxChars)
}
