import { pathToFileURL } from 'node:url'
import { isError, toError } from '../errors.js'
import { CODE_ROOTS } from '../package-root.js'

const MAX_CAUSES_IN_LINE = 3
/** How much of the text of a failure is passed on, wherever it goes. */
const MAX_FAILURE_CHARS = 65_536

/** How Python begins the text of an error. The error itself is below the places; in all other texts it is above them. */
const TRACEBACK = 'Traceback (most recent call last):'

/** How Python begins the text of a group of errors, which has a margin of its own (traceback.py, TracebackException.format). */
const GROUP = '  + Exception Group Traceback'
const GROUP_ERROR = /^ {2}\| (\S.*)/m
const MEMBER = /\n {2,4}\+-.*- \d+ -+\n/
const MEMBER_ERROR = /^ {4}\| (?!.*Traceback \(most recent call last\):$)(\S.*)/m
/** The place that Ruby puts before the message of an error. */
const RUBY_PLACE = /^\S+:\d+:in [`'][^']*': (?=.)/

/** Returns the one line in the text of a failure that says what went wrong. */
export function failureLine(text: string): string {
  const group = text.lastIndexOf(GROUP)
  if (group >= 0 && errorIn(text) < group) return groupLine(text.slice(group))
  const first = firstLine(text)
  if (!first.endsWith(TRACEBACK)) return withCauses(first, text)
  const at = errorIn(text)
  return at < 0 ? first : firstLine(text.slice(at))
}

function firstLine(text: string): string {
  return (/^[^\r\n]*/.exec(text)?.[0] ?? '').replace(RUBY_PLACE, '')
}

/** `ExceptionGroup: many (2 sub-exceptions): ValueError: one: KeyError: 'two'` */
function groupLine(text: string): string {
  const [own = '', ...members] = text.split(MEMBER)
  const reasons = members.map(member => MEMBER_ERROR.exec(member)?.[1] ?? '')
  return joined(GROUP_ERROR.exec(own)?.[1] ?? firstLine(text), reasons.slice(0, MAX_CAUSES_IN_LINE))
}

/** Returns where a traceback's own error begins: below its last place, at the margin; -1 if nowhere. */
function errorIn(text: string): number {
  const from = text.indexOf('\n', text.lastIndexOf('\n  File "') + 1)
  const found = from < 0 ? -1 : text.slice(from).search(/\n\S/)
  return found < 0 ? -1 : from + found + 1
}

/** `TypeError: fetch failed: connect ECONNREFUSED 127.0.0.1:80` */
function withCauses(first: string, text: string): string {
  const causes = text.split(CAUSE).slice(1, 1 + MAX_CAUSES_IN_LINE)
  return joined(
    first.replace(/: $/, ''),
    causes.map(cause => firstLine(cause).replace(/^Error: /, '')),
  )
}

function joined(error: string, reasons: readonly string[]): string {
  return reasons.reduce((line, reason) => (line.endsWith(reason) ? line : `${line}: ${reason}`), error)
}

/** Returns the text of a failure, cut for the log: a message may have any length, and each run writes it. */
export function boundedFailure(text: string): string {
  const left = text.length - MAX_FAILURE_CHARS
  return left <= 0 ? text : `${failureText(text, MAX_FAILURE_CHARS)}… (${left} more characters)`
}

/**
 * Returns the text of a failure, cut to `maxChars`. It still says what went wrong, however deep the call was, and however
 * long the message above its cause.
 */
export function failureText(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text
  if (!text.startsWith(TRACEBACK)) {
    const parts = text.split(CAUSE)
    const share = Math.floor(maxChars / parts.length)
    return parts.map((part, i) => part.slice(0, i === 0 ? share : share - CAUSE.length)).join(CAUSE)
  }
  const cut = `${TRACEBACK}\n  …\n`
  const at = errorIn(text)
  const from = text.length - (maxChars - cut.length)
  // a message that is too long keeps its beginning, which has the error's class
  return (cut + text.slice(at < 0 ? from : Math.min(from, at))).slice(0, maxChars)
}

const FRAME = /^\s+at /
/** The paths of our code in stack frames, as ESM and CommonJS write them. */
const OURS = CODE_ROOTS.flatMap(root => [`${pathToFileURL(root).pathname}/`, `${root}/`])

/** Precedes each cause in the text of a failure. */
export const CAUSE = '\n[cause]: '
const MAX_CAUSES = 5

/** Returns the stack of what was thrown, down to where spoold called the handler; then the stacks of its causes. */
export function stackOf(thrown: unknown): string {
  return ownStackOf(thrown) + causesOf(thrown)
}

/** Returns what `stackOf` says of the causes alone; empty if there are none. */
export function causesOf(thrown: unknown): string {
  const known = new Set<unknown>([thrown])
  const texts: string[] = []
  const add = (error: unknown) => {
    for (const cause of innerOf(error)) {
      if (known.has(cause) || texts.length >= MAX_CAUSES) continue
      known.add(cause)
      texts.push(CAUSE + ownStackOf(cause))
      add(cause)
    }
  }
  add(thrown)
  return texts.join('')
}

/** Returns an error's cause, and the errors that an AggregateError collects. */
function innerOf(error: unknown): unknown[] {
  if (typeof error !== 'object' || error === null) return []
  try {
    const cause = 'cause' in error && isError(error) && error.cause !== undefined ? [error.cause] : []
    const errors = 'errors' in error && isError(error) && Array.isArray(error.errors) ? error.errors : []
    return [...cause, ...errors.slice(0, MAX_CAUSES)]
  } catch {
    return [] // a getter of the user's code has thrown
  }
}

function ownStackOf(thrown: unknown): string {
  const error = toError(thrown)
  const stack = textOf(error)
  if (stack === undefined) return error.message
  const lines = stack.split('\n')
  const last = lines.findLastIndex(isHandlers)
  // if no frame is the handler's, Node's own frames may help
  const end = last >= 0 ? last + 1 : lines.findIndex(isOurs)
  return end < 0 ? stack : lines.slice(0, end).join('\n')
}

/**
 * Returns the stack of an error if it is text. A stack may be anything: a getter that throws, or a list of places if the
 * handler has replaced Error.prepareStackTrace.
 */
function textOf(error: Error): string | undefined {
  try {
    const { stack } = error
    if (typeof stack !== 'string') return undefined
    // Node writes the code of its own errors behind the name
    const heads = [error.name, `${error.name} [${'code' in error ? error.code : ''}]`]
    const own = heads.map(head => `${head}: ${error.message}\n`).find(each => stack.includes(each)) ?? ''
    const at = stack.indexOf(own)
    return at > 0 ? withPlace(stack.slice(at), own.length, stack.slice(0, stack.indexOf('\n'))) : stack
  } catch {
    return undefined
  }
}

/**
 * Moves the place that `vm` and `require` put before an error, with the line of the source, into the stack. For a syntax
 * error it is the only place.
 */
function withPlace(stack: string, places: number, place: string): string {
  if (!/:\d+$/.test(place) || stack.includes(`${place}:`, places)) return stack
  return `${stack.slice(0, places)}    at ${place}\n${stack.slice(places)}`
}

function isOurs(line: string): boolean {
  return FRAME.test(line) && OURS.some(place => line.includes(place))
}

function isHandlers(line: string): boolean {
  return FRAME.test(line) && !isOurs(line) && !/[( ](node:|<anonymous>)/.test(line)
}
