import { describe, isError, messageOf, quietly, SpooldError, toError } from '../errors.js'
import { causesOf, stackOf } from './failure-text.js'
import { IGNORE, OK, type Outcome, RETRY, SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from './outcome.js'
import { type Backoff, durationMs, LONGEST_DELAY_MS, type RetryPolicy } from './terms.js'

/** The values that a handler may return, or resolve to. Anything else is a retry. */
export type Answer =
  | typeof SPOOL_OK
  | typeof SPOOL_RETRY
  | typeof SPOOL_IGNORE
  | RetryAnswer
  | BuryAnswer
  | { readonly done: true }

/** Run it again: according to the options (`true`), after this long (`'5m'`, seconds), or at this time. */
export interface RetryAnswer extends PolicyAnswer {
  readonly retry: true | string | number | Date
  readonly reason?: string
}

/** Never run it again: it becomes a dead letter, with this reason. */
export interface BuryAnswer {
  readonly bury: string | true
  /** The reason, if `bury` is true; otherwise more of it. */
  readonly reason?: string
}

/** Overrides the options (`spooler-max-attempts`, …) for this task from now on. */
export interface PolicyAnswer {
  readonly maxAttempts?: number
  readonly maxCrashes?: number
  readonly backoff?: Backoff
  /** Seconds, or text such as `'5m'`. */
  readonly retryDelay?: number | string
  /** Seconds, or text such as `'20m'`. */
  readonly backoffCap?: number | string
}

/** When to run a task again: at a time, after a delay, or according to the options (neither). */
export interface RetryOptions extends PolicyAnswer {
  readonly at?: Date
  /** The delay: `'5m'`, or seconds. */
  readonly retry?: true | string | number
  readonly reason?: string
  /** The error that was thrown before; it is kept with the reason. */
  readonly cause?: unknown
}

const POLICY_KEYS: readonly string[] = ['maxAttempts', 'maxCrashes', 'backoff', 'retryDelay', 'backoffCap']
const RETRY_KEYS = ['retry', 'reason', ...POLICY_KEYS]
const RETRY_OPTIONS = ['at', 'retry', 'reason', 'cause', ...POLICY_KEYS]

function unknownKey(given: object, known: readonly string[]): string | undefined {
  return Object.entries(given).find(([key, value]) => value !== undefined && !known.includes(key))?.[0]
}

/** If thrown anywhere in a handler, it means the same as the answer `{ retry }`. */
export class RetryTask extends Error implements RetryAnswer {
  override readonly name = 'RetryTask'
  readonly retry: RetryAnswer['retry']

  /** @throws SpooldError ARGUMENTS_INVALID for an `at` that is no time, and for an option that does not exist */
  constructor(asked: RetryOptions | Error = {}) {
    const options: RetryOptions = isError(asked) ? { reason: messageOf(asked), cause: asked } : asked
    const unknown = unknownKey(options, RETRY_OPTIONS)
    if (unknown !== undefined)
      throw refused(unknown, `there is no option ${unknown}; expected one of ${RETRY_OPTIONS.join(', ')}`)
    const { at, retry, reason, cause, ...policy } = options
    super(textOf(reason) ?? 'the task is to run again', cause === undefined ? {} : { cause })
    this.retry = at === undefined ? (retry ?? true) : timeOf(at, retry)
    Object.assign(this, policy)
  }
}

function timeOf(at: unknown, retry: unknown): Date {
  if (retry === undefined && at instanceof Date && !Number.isNaN(at.getTime())) return at
  const got = at instanceof Date ? 'an invalid Date' : describe(at)
  const problem = retry === undefined ? `at must be a valid Date, got ${got}` : 'give at or retry, not both'
  throw refused('at', problem)
}

function refused(key: string, problem: string): SpooldError {
  const error = new SpooldError('ARGUMENTS_INVALID', `RetryTask: ${problem}`, { details: { key } })
  Error.captureStackTrace(error, RetryTask) // the stack begins where the task made the error
  return error
}

const GIVEN_UP = 'the task is given up'

/** If thrown anywhere in a handler, it means the same as the answer `{ bury }`. */
export class AbortTask extends Error implements BuryAnswer {
  override readonly name = 'AbortTask'
  readonly bury: string

  /** @param asked the reason; an Error gives its message as the reason, and is the cause */
  constructor(asked: string | Error | BuryAnswer = GIVEN_UP, options?: ErrorOptions) {
    super(textOf(reasonOf(asked)) ?? GIVEN_UP, isError(asked) ? { cause: asked, ...options } : options)
    this.bury = this.message
  }
}

function reasonOf(asked: unknown): string {
  if (typeof asked !== 'object' || asked === null || !('bury' in asked)) return shown(asked)
  return buryReason(asked) ?? GIVEN_UP
}

function shown(reason: unknown): string {
  if (typeof reason === 'string') return reason
  return isError(reason) ? messageOf(reason) : describe(reason)
}

/** A reason of another type than text is shown, because a refusal would run again what is never to run again. */
function buryReason({
  bury,
  reason,
}: {
  readonly bury?: unknown
  readonly reason?: unknown
}): string | undefined {
  const texts = [
    ...(typeof bury === 'string' ? [bury] : []),
    ...(reason === undefined ? [] : [shown(reason)]),
  ]
  return texts.filter(text => textOf(text) !== undefined).join(': ') || undefined
}

/** @returns undefined if the text says nothing */
function textOf(reason: string | undefined): string | undefined {
  return reason?.trim() === '' ? undefined : reason
}

const EXPECTED =
  'expected SPOOL_OK (-2), SPOOL_RETRY (-1), SPOOL_IGNORE (0), { retry }, { bury } or { done: true }'

/**
 * Converts a handler's return value to an outcome. uWSGI's rule (core/spooler.c): -2 done, 0 not mine, anything else retry.
 * We report any other value than -1, because it is nearly always a forgotten `return`.
 */
export function toOutcome(answer: unknown): Outcome {
  if (answer === SPOOL_OK) return OK
  if (answer === SPOOL_RETRY) return RETRY
  if (answer === SPOOL_IGNORE) return IGNORE
  try {
    const outcome = fromObject(answer)
    if (outcome !== undefined) return outcome
  } catch (fault) {
    return invalid(toError(fault).message)
  }
  return invalid(`the handler returned ${describe(answer)}${quietly(() => keysIn(answer), '')}; ${EXPECTED}`)
}

/** Names keys of a literal, because a misspelt answer is one. */
function keysIn(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null || Object.getPrototypeOf(answer) !== Object.prototype)
    return ''
  const keys = Object.keys(answer)
  return keys.length === 0 ? '' : ` with ${describe(keys.slice(0, 5).join(', '))}`
}

/**
 * Converts what was thrown to an outcome. It is an answer (`RetryTask` or `AbortTask`, from any copy of this package), which
 * has no stack, or an error, which has one.
 */
export function fromThrown(thrown: unknown): Outcome {
  const { name, message } = toError(thrown)
  if (name !== 'RetryTask' && name !== 'AbortTask') return { kind: 'error', detail: stackOf(thrown) }
  const outcome = toOutcome(thrown)
  return outcome.kind === 'retry' || outcome.kind === 'bury'
    ? { ...outcome, detail: message + causesOf(thrown) }
    : outcome
}

function invalid(why: string): Outcome {
  return { kind: 'error', detail: `${why}, so the task is retried` }
}

/**
 * Only an object that has `retry`, `bury` or `done` is meant as an answer. Further keys beside `bury` and `done` are the handler's
 * own, because a refusal would run again what is never to run again.
 *
 * @throws Error that names the key, what was expected and what was given
 */
function fromObject(answer: unknown): Outcome | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined
  const asked: {
    readonly retry?: unknown
    readonly bury?: unknown
    readonly reason?: unknown
    readonly done?: unknown
  } = answer
  const { retry, bury } = asked
  const isDone = asked.done === true
  const given = [retry !== undefined && 'retry', bury !== undefined && 'bury', isDone && 'done']
  const keys = given.filter(key => key !== false)
  if (keys.length > 1)
    throw new TypeError(
      `the handler's answer has ${keys.join(' and ')}; expected one of retry, bury and done`,
    )
  if (retry !== undefined) return retryOf(answer, retry)
  if (bury !== undefined && bury !== true && typeof bury !== 'string')
    throw new TypeError(wrong('bury', 'a reason or true', bury))
  if (bury !== undefined) return { kind: 'bury', detail: buryReason(asked) ?? 'the handler gave no reason' }
  return isDone ? OK : undefined
}

function retryOf(answer: object, when: unknown): Outcome {
  // an error has further properties; the constructor of RetryTask has checked what was asked
  const unknown = isError(answer) ? undefined : unknownKey(answer, ['done', ...RETRY_KEYS])
  if (unknown !== undefined)
    throw new TypeError(
      `the handler's answer has the unknown key ${unknown}; expected some of ${RETRY_KEYS.join(', ')}`,
    )
  const reason = 'reason' in answer ? answer.reason : undefined
  if (reason !== undefined && typeof reason !== 'string')
    throw new TypeError(wrong('reason', 'a text', reason))
  const detail = textOf(reason)
  const delayMs = delayOf(when)
  const policy = policyOf(answer)
  return {
    kind: 'retry',
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(Object.keys(policy).length === 0 ? {} : { policy }),
    ...(detail === undefined ? {} : { detail }),
  }
}

/** @returns milliseconds from now; undefined means according to the options */
function delayOf(when: unknown): number | undefined {
  if (when === true) return undefined
  if (when instanceof Date && !Number.isNaN(when.getTime()))
    return Math.min(LONGEST_DELAY_MS, Math.max(0, when.getTime() - Date.now()))
  return durationOf('retry', when, "true, seconds, a text such as '5m', or a Date")
}

function policyOf(answer: object): Partial<RetryPolicy> {
  const asked: PolicyAnswer = answer
  const { maxAttempts, maxCrashes, backoff, retryDelay, backoffCap } = asked
  return {
    ...(maxAttempts === undefined ? {} : { maxAttempts: countOf('maxAttempts', maxAttempts) }),
    ...(maxCrashes === undefined ? {} : { maxCrashes: countOf('maxCrashes', maxCrashes) }),
    ...(backoff === undefined ? {} : { backoff: backoffOf(backoff) }),
    ...(retryDelay === undefined ? {} : { delayMs: durationOf('retryDelay', retryDelay) }),
    ...(backoffCap === undefined ? {} : { capMs: durationOf('backoffCap', backoffCap) }),
  }
}

function countOf(key: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value
  throw new TypeError(wrong(key, 'a whole number from 0', value))
}

function backoffOf(value: unknown): Backoff {
  if (value === 'none' || value === 'fixed' || value === 'exponential') return value
  throw new TypeError(wrong('backoff', 'none, fixed or exponential', value))
}

function durationOf(key: string, value: unknown, expected = "seconds or a text such as '5m'"): number {
  const ms = durationMs(value)
  if (ms !== undefined) return ms
  throw new TypeError(wrong(key, expected, value))
}

function wrong(key: string, expected: string, got: unknown): string {
  return `the handler's answer has the wrong ${key}: expected ${expected}, got ${describe(got)}`
}
