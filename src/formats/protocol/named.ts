import { describe, messageOf, SpooldError } from '../../base/errors.js'
import { lastValue, type Vars } from './vars.js'

/** The keys of a named task. */
export const TASK_KEY = 'task'
export const ARGS_KEY = 'args'
export const KWARGS_KEY = 'kwargs'
/** The task's own id, and the queue that it was scheduled for unless that is the default one; for people and events. */
export const ID_KEY = 'id'
export const QUEUE_KEY = 'queue'

/** As the value of `args`: both are in the body. It is not JSON, so it is no list of arguments. */
export const IN_BODY = '@body'

/** The queue of tasks that name none. */
export const DEFAULT_QUEUE = 'default'

/** Names are in log lines and on command lines. */
const MAX_NAME_BYTES = 200
const EXPECTED_NAME = `1 to ${MAX_NAME_BYTES} bytes without spaces and control characters that do not begin with _`

/** @returns what a task's name must be, if this is none */
export function nameFault(name: unknown): string | undefined {
  const isName = typeof name === 'string' && /^(?!_)[^\s\p{C}]+$/u.test(name)
  return isName && Buffer.byteLength(name) <= MAX_NAME_BYTES ? undefined : EXPECTED_NAME
}

/** @returns what a queue's name must be, if this is none */
export function queueFault(name: unknown): string | undefined {
  const isRight = nameFault(name) === undefined && !/[=,]/.test(String(name))
  return isRight ? undefined : `${EXPECTED_NAME} and have no = or ,`
}

/** What a function is called with. In JavaScript `kwargs` are its last argument. */
export interface CallArguments {
  readonly args: readonly unknown[]
  readonly kwargs: Readonly<Record<string, unknown>> | undefined
}

/** The task's name: one character per byte. */
export function taskNameOf(vars: Vars): string | undefined {
  return lastValue(vars, TASK_KEY)
}

/** True if this can be nothing but a named task: `task` alone may be a key of the user's own. */
export function isNamed(vars: Vars): boolean {
  return (
    lastValue(vars, TASK_KEY) !== undefined &&
    (lastValue(vars, ARGS_KEY) !== undefined || lastValue(vars, KWARGS_KEY) !== undefined)
  )
}

/** @throws SpooldError ARGUMENTS_INVALID if they are not what docs/spool-format.md describes */
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

/** There may be a number that is not what it was, if it is not part of a text. */
const LONG_NUMBER = /[0-9]{16}|[0-9][eE]\+?[0-9]{3}/
const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/g

/** Other languages have integers of any size, which JSON.parse rounds without a word. @param text valid JSON */
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
