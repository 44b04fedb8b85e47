import { pathToFileURL } from 'node:url'
import { toError } from '../base/errors.js'
import { CODE_ROOTS } from '../base/package-root.js'

const FRAME = /^\s+at /
/** As frames of ESM and of CommonJS name it. */
const OURS = CODE_ROOTS.flatMap(root => [`${pathToFileURL(root).pathname}/`, `${root}/`])

/** The stack of what was thrown, down to where spoold called the handler: the rest is nobody's business but ours. */
export function stackOf(thrown: unknown): string {
  const { stack, message } = toError(thrown)
  if (stack === undefined) return message
  const lines = stack.split('\n')
  const last = lines.findLastIndex(isHandlers)
  // not one frame of the handler's: what Node says of an error of its own may help
  const end = last >= 0 ? last + 1 : lines.findIndex(isOurs)
  return end < 0 ? stack : lines.slice(0, end).join('\n')
}

function isOurs(line: string): boolean {
  return FRAME.test(line) && OURS.some(place => line.includes(place))
}

function isHandlers(line: string): boolean {
  return FRAME.test(line) && !isOurs(line) && !/[( ](node:|<anonymous>)/.test(line)
}
