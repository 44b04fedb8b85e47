import { describe, messageOf, SpooldError } from '../../base/errors.js'
import { lastValue, type Vars } from './vars.js'

/** The keys of a named task. */
export const TASK_KEY = 'task'
export const ARGS_KEY = 'args'
export const KWARGS_KEY = 'kwargs'
/** The task's own id, and its queue unless that is the default one; for people and events. */
export const ID_KEY = 'id'
export const QUEUE_KEY = 'queue'

/** The value of `args` if both args and kwargs are in the body. It is not JSON, so no list of arguments has this form. */
export const IN_BODY = '@body'

/** The queue of tasks that name none. */
export const DEFAULT_QUEUE = 'default'

/** The maximum length of a name, which is in log lines and on command lines. */
const MAX_NAME_BYTES = 200
const EXPECTED_NAME = `1 to ${MAX_NAME_BYTES} bytes without spaces and control characters that do not begin with _`

/** @returns what a task's name must be, if this is not a valid one */
export function nameFault(name: unknown): string | undefined {
  const isName = typeof name === 'string' && /^(?!_)[^\s\p{C}]+$/u.test(name)
  return isName && Buffer.byteLength(name) <= MAX_NAME_BYTES ? undefined : EXPECTED_NAME
}

/** @returns what a queue's name must be, if this is not a valid one */
export function queueFault(name: unknown): string | undefined {
  const isRight = nameFault(name) === undefined && !/[=,]/.test(String(name))
  return isRight ? undefined : `${EXPECTED_NAME} and have no = or ,`
}

/** The arguments of a function's call. In JavaScript, `kwargs` are the last argument. */
export interface CallArguments {
  readonly args: readonly unknown[]
  readonly kwargs: Readonly<Record<string, unknown>> | undefined
}

/** Returns the task's name, one character per byte. */
export function taskNameOf(vars: Vars): string | undefined {
  return lastValue(vars, TASK_KEY)
}

/** True if this can only be a named task. The key `task` alone may be the user's own. */
export function isNamed(vars: Vars): boolean {
  return (
    lastValue(vars, TASK_KEY) !== undefined &&
    (lastValue(vars, ARGS_KEY) !== undefined || lastValue(vars, KWARGS_KEY) !== undefined)
  )
}

/**
 * Returns the arguments of a named task.
 *
 * @throws SpooldError ARGUMENTS_INVALID if they are not what docs/spool-format.md describes
 */
export function argumentsOf(vars: Vars, readBody: () => Uint8Array | undefined): CallArguments {
  const args = lastValue(vars, ARGS_KEY)
  if (args === IN_BODY) return argumentsInBody(readBody())
  const kwargs = lastValue(vars, KWARGS_KEY)
  return {
    args: args === undefined ? [] : listOf(ARGS_KEY, parsed(ARGS_KEY, fromLatin1(args))),
    kwargs: kwargs === undefined ? undefined : objectOf(KWARGS_KEY, parsed(KWARGS_KEY, fromLatin1(kwargs))),
  }
}

function argumentsInBody(body: Uint8Array | undefined): CallArguments {
  const text = body === undefined ? '' : Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString()
  const whole = objectOf('the body', parsed('the body', text))
  return {
    args: whole.args === undefined ? [] : listOf('args in the body', whole.args),
    kwargs: whole.kwargs === undefined ? undefined : objectOf('kwargs in the body', whole.kwargs),
  }
}

function parsed(what: string, text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw invalid(what, `JSON, got ${describe(text)}: ${messageOf(error)}`)
  }
  const changed = LONG_NUMBER.test(text) ? changedNumber(text) : undefined
  if (changed === undefined) return value
  throw invalid(what, `JSON whose numbers JavaScript can hold, got ${changed}: schedule it as text`)
}

/** Matches if the JSON may have a number that JavaScript would change; the digits may also be part of a text. */
const LONG_NUMBER = /[0-9]{16}|[0-9][eE]\+?[0-9]{3}/
const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/g

/**
 * Returns a number that JSON.parse changes; undefined if there is none. Other languages have integers of any size, which
 * JSON.parse rounds silently.
 *
 * @param text valid JSON
 */
function changedNumber(text: string): string | undefined {
  for (const [token] of text.matchAll(TEXT_OR_NUMBER)) {
    if (token.startsWith('"')) continue
    const number = Number(token)
    if (!Number.isFinite(number)) return token
    if (/^-?[0-9]+$/.test(token) && !Number.isSafeInteger(number) && BigInt(token) !== BigInt(number))
      return token
  }
  return undefined
}

function listOf(what: string, value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw invalid(what, `a JSON array, got ${describe(value)}`)
}

function objectOf(what: string, value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Readonly<Record<string, unknown>>
  throw invalid(what, `a JSON object, got ${describe(value)}`)
}

function invalid(what: string, expected: string): SpooldError {
  return new SpooldError('ARGUMENTS_INVALID', `${what} must be ${expected}`, { details: { key: what } })
}

const NOT_ASCII = /[\x80-\xff]/

function fromLatin1(bytes: string): string {
  return NOT_ASCII.test(bytes) ? Buffer.from(bytes, 'latin1').toString() : bytes
}
