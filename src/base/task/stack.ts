import { pathToFileURL } from 'node:url'
import { toError } from '../errors.js'
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
  const texts: string[] = []
  try {
    let error = thrown
    while (error instanceof Error && error.cause !== undefined && texts.length < MAX_CAUSES) {
      error = error.cause
      texts.push(CAUSE + ownStackOf(error))
    }
  } catch {} // a getter of theirs
  return texts.join('')
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
    return typeof error.stack === 'string' ? error.stack : undefined
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
