import type { RetryPolicy } from './retry-policy.js'

// A handler's answers, as uWSGI names and numbers them (plugins/python/uwsgi_pymodule.c). Without `as const` they would be
// a mere number where TypeScript infers what a handler returns.

/** The task is done: it is removed. */
export const SPOOL_OK = -2 as const
/** The task is to run again, later. */
export const SPOOL_RETRY = -1 as const
/** The task is not for this handler: the next one is asked, and without one the task stays as it is. */
export const SPOOL_IGNORE = 0 as const

/** What else runs in the process of a run, when it begins. */
export type Company = 'alone' | 'beside'

/** What came of one run, as data: handlers return or throw, task/answer turns either into one of these. */
export type Outcome =
  | { readonly kind: 'ok' }
  | RetryOutcome
  | { readonly kind: 'ignore' }
  /** `detail`: the stack of what was thrown, or what is wrong with the answer. */
  | { readonly kind: 'error'; readonly detail: string }
  /** It is not to run again; `detail` says why. */
  | { readonly kind: 'bury'; readonly detail: string }
  /** It took its host with it; `detail` says how that died. */
  | { readonly kind: 'crash'; readonly detail: string }
  /** The run was cut short through no fault of the task: as if it had not begun. Unbegun: it really had not. */
  | { readonly kind: 'release'; readonly isUnbegun?: true }

/** To run again, at a time and by rules of its own where the handler asked for them. */
export interface RetryOutcome {
  readonly kind: 'retry'
  /** undefined: what the policy says. */
  readonly delayMs?: number
  /** In place of the options, from now on. */
  readonly policy?: Partial<RetryPolicy>
  readonly detail?: string
}

export const OK: Outcome = { kind: 'ok' }
export const RETRY: Outcome = { kind: 'retry' }
export const IGNORE: Outcome = { kind: 'ignore' }
export const RELEASE: Outcome = { kind: 'release' }
export const UNBEGUN: Outcome = { kind: 'release', isUnbegun: true }
