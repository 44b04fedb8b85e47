import { pathToFileURL } from 'node:url'
import { toError } from '../errors.js'
import { CODE_ROOTS } from '../package-root.js'

const FRAME = /^\s+at /
/** The paths of our code in stack frames, as ESM and CommonJS write them. */
const OURS = CODE_ROOTS.flatMap(root => [`${pathToFileURL(root).pathname}/`, `${root}/`])

/** The stack of what was thrown, down to where spoold called the handler. */
export function stackOf(thrown: unknown): string {
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
