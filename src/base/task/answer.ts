import { describe, isError, messageOf, SpooldError, toError } from '../errors.js'
import { parseDuration } from '../time-text.js'
import { causesOf, stackOf } from './failure-text.js'
import { IGNORE, OK, type Outcome, RETRY, SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from './outcome.js'
import { type Backoff, LONGEST_DELAY_MS, type RetryPolicy } from './terms.js'

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

/** If thrown anywhere in a handler, it means the same as the answer `{ retry }`. */
export class RetryTask extends Error implements RetryAnswer {
  override readonly name = 'RetryTask'
  readonly retry: RetryAnswer['retry']

  /** @throws SpooldError ARGUMENTS_INVALID for an `at` that is no time */
  constructor(asked: RetryOptions | Error = {}) {
    const options: RetryOptions = isError(asked) ? { reason: messageOf(asked), cause: asked } : asked
    const { at, retry, reason, cause, ...policy } = options
    super(reason ?? 'the task is to run again', cause === undefined ? {} : { cause })
    this.retry = at === undefined ? (retry ?? true) : timeOf(at, retry)
    Object.assign(this, policy)
  }
}

function timeOf(at: unknown, retry: unknown): Date {
  if (retry === undefined && at instanceof Date && !Number.isNaN(at.getTime())) return at
  const got = at instanceof Date ? 'an invalid Date' : describe(at)
  const problem = retry === undefined ? `at must be a valid Date, got ${got}` : 'give at or retry, not both'
  const error = new SpooldError('ARGUMENTS_INVALID', `RetryTask: ${problem}`, { details: { key: 'at' } })
  Error.captureStackTrace(error, RetryTask) // the stack begins where the task made the error
  throw error
}

/** If thrown anywhere in a handler, it means the same as the answer `{ bury }`. */
export class AbortTask extends Error implements BuryAnswer {
  override readonly name = 'AbortTask'
  readonly bury: string

  /** @param asked the reason; an Error gives its message as the reason, and is the cause */
  constructor(asked: string | Error | BuryAnswer = 'the task is given up', options?: ErrorOptions) {
    super(reasonOf(asked), isError(asked) ? { cause: asked, ...options } : options)
    this.bury = this.message
  }
}

function reasonOf(asked: unknown): string {
  if (typeof asked === 'string') return asked
  if (isError(asked)) return messageOf(asked)
  const bury = typeof asked === 'object' && asked !== null && 'bury' in asked ? asked.bury : describe(asked)
  return typeof bury === 'string' ? bury : 'the task is given up'
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
  return invalid(`the handler returned ${describe(answer)}; ${EXPECTED}`)
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

/** @throws Error that names the field, what was expected and what was given */
function fromObject(answer: unknown): Outcome | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined
  if ('retry' in answer) return retryOf(answer, answer.retry)
  if ('bury' in answer) {
    if (answer.bury === true) return { kind: 'bury', detail: 'the handler gave no reason' }
    if (typeof answer.bury === 'string') return { kind: 'bury', detail: answer.bury }
    throw new TypeError(wrong('bury', 'a reason or true', answer.bury))
  }
  return 'done' in answer && answer.done === true ? OK : undefined
}

function retryOf(answer: object, when: unknown): Outcome {
  const delayMs = delayOf(when)
  const policy = policyOf(answer)
  return {
    kind: 'retry',
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(Object.keys(policy).length === 0 ? {} : { policy }),
    ...('reason' in answer && typeof answer.reason === 'string' ? { detail: answer.reason } : {}),
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
  const ms = typeof value === 'number' ? value * 1000 : parseDuration(typeof value === 'string' ? value : '')
  if (ms !== undefined && ms >= 0 && value !== Number.POSITIVE_INFINITY) return Math.min(ms, LONGEST_DELAY_MS)
  throw new TypeError(wrong(key, expected, value))
}

function wrong(key: string, expected: string, got: unknown): string {
  return `the handler's answer has the wrong ${key}: expected ${expected}, got ${describe(got)}`
}
