import type { LastRun } from '../../base/task/last-run.js'
import type { BuryReason, Outcome } from '../../base/task/outcome.js'
import type { ReportKind } from '../../base/task/report.js'
import {
  crashDelayMs,
  LAST_ERROR,
  LONGEST_DELAY_MS,
  limitReached,
  type RetryPolicy,
  retryDelayMs,
  type Terms,
} from '../../base/task/terms.js'

/**
 * The verdict on a run, for all engines. docs/failures.md has the same as a table. An engine says what it knows, and applies
 * the answer to its files, jobs or objects.
 */

/**
 * The state of the last run, as its mark says. The mark stays if that run never ended. `died-beside`: other tasks ran in its
 * process, so none is guilty yet. `died-once`: the task is delivered at most once.
 */
export const PASTS = ['none', 'died-alone', 'died-beside', 'died-once'] as const
export type Past = (typeof PASTS)[number]

/** The counts of a task's runs, and the retry policy that they left. */
export interface Runs {
  /** Runs that ended in a retry, an error or a crash. */
  readonly attempts: number
  /** Runs that killed their worker. */
  readonly crashes: number
  /** The retry policy that its handler requested in place of the options. */
  readonly policy: Partial<RetryPolicy>
}

/** The rules that apply to one task of one worker. */
export interface Rules {
  /** The retry policy of the options. */
  readonly policy: RetryPolicy
  /** The terms that the handlers give the task. */
  readonly terms: Terms | undefined
  /** The default delay of a retry, and the maximum delay after a crash. */
  readonly frequencyMs: number
}

/** A failed run that counts. */
export interface Failed {
  readonly kind: 'retry' | 'error' | 'crash'
  readonly error: string | undefined
}

export interface Burial {
  readonly kind: 'bury'
  readonly reason: BuryReason
  readonly why: string
  /** `why`, and what the last run failed with. */
  readonly detail: string
  readonly runs: Runs
  /** The run that led to the burial; undefined if none did. */
  readonly failed: Failed | undefined
}

/** The task runs again after a failed run. */
export interface Again {
  readonly kind: 'again'
  readonly as: Extract<ReportKind, 'retry' | 'error' | 'later'>
  readonly delayMs: number
  readonly detail: string | undefined
  readonly runs: Runs
  readonly failed: Failed
}

/** The verdict on a run whose end nobody has settled. */
export type PastVerdict = (Burial | Again) & {
  /** How the process died, if the verdict follows from that death and the death counts. */
  readonly death?: string
}

/** The verdict on a task after its run. `put-back`: the task is as it was before. */
export type Verdict = { readonly kind: 'remove' } | Unsettled

/** The verdict on a task that is not done. */
export type Unsettled = { readonly kind: 'ignored' | 'put-back' } | Burial | Again

/** The key by which a packet names its own delivery. */
export const DELIVERY_KEY = 'spooler_delivery'

const CUT_SHORT = 'its process ended in the middle of it; it is delivered at most once'
const MAY_BE_DONE = 'it may have done its work, and is delivered at most once'
const UNCOUNTED = 'its run failed; the reason could not be recorded at the time'

/** Returns what the end of a run leads to. */
export function verdictOf(outcome: Outcome, runs: Runs, isOnce: boolean, rules: Rules): Verdict {
  switch (outcome.kind) {
    case 'ok':
      return { kind: 'remove' }
    case 'ignore':
      return { kind: 'ignored' }
    case 'release':
      return isOnce && outcome.isUnbegun !== true
        ? burial('outcome-unknown', CUT_SHORT, runs)
        : { kind: 'put-back' }
    case 'cancel':
      return burial('cancelled', outcome.detail, runs)
    case 'bury':
      return burial(
        'asked',
        outcome.detail,
        { ...runs, attempts: runs.attempts + 1 },
        { kind: 'error', error: outcome.detail },
      )
    case 'crash':
      return isOnce ? burial('outcome-unknown', outcome.detail, runs) : failed(outcome, runs, rules)
    default:
      return failed(outcome, runs, rules)
  }
}

/**
 * Returns what the mark of a run leads to if nobody has settled the end of that run. `run`: the task may run, and `past` is
 * what remains of the mark.
 *
 * @param past `failed`: the run ended, but that could not be written down
 * @param lastRun what the master knows about how the run was cut short
 */
export function pastVerdict(
  past: Past | 'failed',
  lastRun: LastRun | undefined,
  runs: Runs,
  rules: Rules,
): PastVerdict | { readonly kind: 'run'; readonly past: Past } {
  if (past === 'none') return { kind: 'run', past }
  if (lastRun?.kind === 'cancelled') return burial('cancelled', lastRun.detail, runs)
  const cause = lastRun?.kind === 'crash' ? lastRun.cause : 'its process died'
  const isBlameless = lastRun?.kind === 'blameless'
  if (past === 'died-once') {
    const buried = burial('outcome-unknown', `${cause}; ${MAY_BE_DONE}`, runs)
    return isBlameless ? buried : { ...buried, death: cause }
  }
  if (past === 'failed') return failed({ kind: 'error', detail: UNCOUNTED }, runs, rules)
  if (isBlameless) return { kind: 'run', past: 'none' }
  if (past === 'died-beside') return { kind: 'run', past }
  return { ...failed({ kind: 'crash', detail: cause }, runs, rules), death: cause }
}

function failed(
  failure: Extract<Outcome, { kind: 'retry' | 'error' | 'crash' }>,
  before: Runs,
  rules: Rules,
): Burial | Again {
  const { kind, detail } = failure
  const run: Failed = { kind, error: detail }
  const runs = {
    attempts: before.attempts + 1,
    crashes: before.crashes + (kind === 'crash' ? 1 : 0),
    policy: failure.kind === 'retry' ? { ...before.policy, ...failure.policy } : before.policy,
  }
  const policy = { ...rules.policy, ...rules.terms?.policy, ...runs.policy }
  const limit = limitReached(policy, runs)
  if (limit !== undefined) return burial(limit.reason, limit.detail, runs, run)
  if (failure.kind === 'crash') {
    const delayMs = crashDelayMs(runs.crashes, rules.frequencyMs)
    return { kind: 'again', as: 'later', delayMs, detail, runs, failed: run }
  }
  const wishMs = failure.delayMs
  const delayMs = Math.min(wishMs ?? retryDelayMs(policy, runs.attempts, rules.frequencyMs), LONGEST_DELAY_MS)
  return { kind: 'again', as: failure.kind, delayMs, detail, runs, failed: run }
}

function burial(reason: BuryReason, why: string, runs: Runs, run?: Failed): Burial {
  const { error } = run ?? {}
  const detail = error === undefined || error === why ? why : `${why}${LAST_ERROR}${error}`
  return { kind: 'bury', reason, why, detail, runs, failed: run }
}
