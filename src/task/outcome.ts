import { describe, toError } from '../base/errors.js'

/** A handler's answers, as uWSGI names and numbers them (plugins/python/uwsgi_pymodule.c). */
export const SPOOL_OK = -2
export const SPOOL_RETRY = -1
export const SPOOL_IGNORE = 0

/** What came of one run, as data: handlers return or throw, `toOutcome` turns either into one of these. */
export type Outcome =
  | { readonly kind: 'ok' }
  | { readonly kind: 'retry' }
  | { readonly kind: 'ignore' }
  /** `detail`: the stack of what was thrown, or what is wrong with the answer. */
  | { readonly kind: 'error'; readonly detail: string }
  /** The run was cut short through no fault of the task: as if it had not begun. */
  | { readonly kind: 'release' }

export const OK: Outcome = { kind: 'ok' }
export const RETRY: Outcome = { kind: 'retry' }
export const IGNORE: Outcome = { kind: 'ignore' }
export const RELEASE: Outcome = { kind: 'release' }

/**
 * A handler's return value as an outcome. uWSGI's rule (core/spooler.c): -2 done, 0 not mine, anything else retry;
 * we say aloud when "anything else" is not -1, because it is nearly always a forgotten `return`.
 */
export function toOutcome(answer: unknown): Outcome {
  if (answer === SPOOL_OK) return OK
  if (answer === SPOOL_RETRY) return RETRY
  if (answer === SPOOL_IGNORE) return IGNORE
  return {
    kind: 'error',
    detail: `the handler returned ${describe(answer)}; expected SPOOL_OK (-2), SPOOL_RETRY (-1) or SPOOL_IGNORE (0), so the task is retried`,
  }
}

export function fromThrown(thrown: unknown): Outcome {
  const { stack, message } = toError(thrown)
  return { kind: 'error', detail: stack ?? message }
}
