import { pathToFileURL } from 'node:url'
import { isError, toError } from '../errors.js'
import { CODE_ROOTS } from '../package-root.js'

const FRAME = /^\s+at /
/** The paths of our code in stack frames, as ESM and CommonJS write them. */
const OURS = CODE_ROOTS.flatMap(root => [`${pathToFileURL(root).pathname}/`, `${root}/`])

/** In the text of a failure, before each cause. */
export const CAUSE = '\n[cause]: '
const MAX_CAUSES = 5

/** The stack of what was thrown, down to where spoold called the handler; then those of its causes. */
export function stackOf(thrown: unknown): string {
  return ownStackOf(thrown) + causesOf(thrown)
}

/** What `stackOf` says of the causes alone; empty if there are none. */
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

/** Its cause, and what an AggregateError collects. */
function innerOf(error: unknown): unknown[] {
  if (typeof error !== 'object' || error === null) return []
  try {
    const cause = 'cause' in error && isError(error) && error.cause !== undefined ? [error.cause] : []
    const errors = 'errors' in error && isError(error) && Array.isArray(error.errors) ? error.errors : []
    return [...cause, ...errors.slice(0, MAX_CAUSES)]
  } catch {
    return [] // a getter of theirs
  }
}

function ownStackOf(thrown: unknown): string {
  const error = toError(thrown)
  const stack = textOf(error)
  if (stack === undefined) return error.message
  const lines = stack.split('\n')
  const last = lines.findLastIndex(isHandlers)
  // no frame is the handler's: Node's own frames may help
  const end = last >= 0 ? last + 1 : lines.findIndex(isOurs)
  return end < 0 ? stack : lines.slice(0, end).join('\n')
}

/** A stack is anything: a getter that throws, or a list of places if the handler has replaced Error.prepareStackTrace. */
function textOf(error: Error): string | undefined {
  try {
    const { stack } = error
    if (typeof stack !== 'string') return undefined
    // `vm` and others put the line of the source before it
    return stack.slice(Math.max(0, stack.indexOf(`${error.name}: ${error.message}\n`)))
  } catch {
    return undefined
  }
}

function isOurs(line: string): boolean {
  return FRAME.test(line) && OURS.some(place => line.includes(place))
}

function isHandlers(line: string): boolean {
  return FRAME.test(line) && !isOurs(line) && !/[( ](node:|<anonymous>)/.test(line)
}
