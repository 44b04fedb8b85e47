import type { RetryPolicy } from './terms.js'

// A handler's answers, as uWSGI names and numbers them (plugins/python/uwsgi_pymodule.c). Without `as const` they would be
// a mere number where TypeScript infers what a handler returns.

/** The task is done: it is removed. */
export const SPOOL_OK = -2 as const
/** The task runs again later. */
export const SPOOL_RETRY = -1 as const
/** The task is not for this handler: the next one gets it; without one the task stays as it is. */
export const SPOOL_IGNORE = 0 as const

/** Whether other tasks run in the process when a run starts. */
export type Company = 'alone' | 'beside'

/** The result of one run, as data: handlers return or throw, and task/answer turns either into one of these. */
export type Outcome =
  | { readonly kind: 'ok' }
  | RetryOutcome
  | { readonly kind: 'ignore' }
  /** `detail`: the stack of the error, or what is wrong with the answer. `delayMs`: as for a retry. */
  | { readonly kind: 'error'; readonly detail: string; readonly delayMs?: number }
  /** The task must not run again; `detail` says why. */
  | { readonly kind: 'bury'; readonly detail: string }
  /** People cancelled the task; `detail` says how its run ended. */
  | { readonly kind: 'cancel'; readonly detail: string }
  /** The task crashed its host; `detail` says how the host died. */
  | { readonly kind: 'crash'; readonly detail: string }
  /**
   * The run was interrupted through no fault of the task: treat the task as if it had not started. `isUnbegun`: it had not.
   * `shortage`: what its process lacks; that process is to be replaced.
   */
  | { readonly kind: 'release'; readonly isUnbegun?: true; readonly shortage?: string }

/** The task runs again, with the delay and policy that the handler asked for, if any. */
interface RetryOutcome {
  readonly kind: 'retry'
  /** Undefined means the delay of the policy. */
  readonly delayMs?: number
  /** Overrides the options from now on. */
  readonly policy?: Partial<RetryPolicy>
  readonly detail?: string
}

export const OK: Outcome = { kind: 'ok' }
export const RETRY: Outcome = { kind: 'retry' }
export const IGNORE: Outcome = { kind: 'ignore' }
export const RELEASE: Outcome = { kind: 'release' }
export const UNBEGUN: Outcome = { kind: 'release', isUnbegun: true }

/** Why a task was buried. */
export const BURY_REASONS = [
  'attempts', // reached spooler-max-attempts failed runs
  'crashes', // crashed its process spooler-max-crashes times
  'asked', // the handler asked for it
  'cancelled', // people asked for it: `spoold cancel`
  'outcome-unknown', // runs at most once, and its process died during the run
  'malformed', // not a spool packet
  'incomplete', // shorter than its own header says
  'unknown', // the reason was lost; written by fsck
] as const
export type BuryReason = (typeof BURY_REASONS)[number]
