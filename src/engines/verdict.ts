import type { BuryReason } from '../base/task/bury-reasons.js'
import type { LastRun } from '../base/task/last-run.js'
import type { Outcome } from '../base/task/outcome.js'
import type { ReportKind } from '../base/task/report.js'
import {
  crashDelayMs,
  LAST_ERROR,
  LONGEST_DELAY_MS,
  limitReached,
  type RetryPolicy,
  retryDelayMs,
} from '../base/task/retry-policy.js'
import type { Terms } from '../base/task/terms.js'

/** The mark of a run that has begun; it stays if the run never ends. */
export const PASTS = ['none', 'died-alone', 'died-beside', 'died-once'] as const
export type Past = (typeof PASTS)[number]

/** What is remembered of the runs of a task. */
export interface Runs {
  /** Runs that ended in a retry, an error or a crash. */
  readonly attempts: number
  /** Runs that killed their worker. */
  readonly crashes: number
  /** The retry policy that its handler requested in place of the options. */
  readonly policy: Partial<RetryPolicy>
}

/** What applies to one task of one worker. */
export interface Rules {
  /** That of the options. */
  readonly policy: RetryPolicy
  /** What the handlers say of the task. */
  readonly terms: Terms | undefined
  /** The default delay of a retry, and the maximum delay after a crash. */
  readonly frequencyMs: number
}

export interface Burial {
  readonly kind: 'bury'
  readonly reason: BuryReason
  readonly detail: string
  readonly runs: Runs
}

/** It runs again, and is reported as `as`. */
export interface Again {
  readonly kind: 'again'
  readonly as: Extract<ReportKind, 'retry' | 'error' | 'later'>
  readonly delayMs: number
  readonly detail: string | undefined
  readonly runs: Runs
}

/** What becomes of a task after its run. `put-back`: as it was before. */
export type Verdict = { readonly kind: 'remove' } | Unsettled

/** It is not done. */
export type Unsettled = { readonly kind: 'ignored' | 'put-back' } | Burial | Again

/** The packet's key for its own delivery. */
export const DELIVERY_KEY = 'spooler_delivery'
const CUT_SHORT = 'its worker ended in the middle of it; it is delivered at most once'

/** What an engine that keeps no files does with the outcome of a run. */
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
      return burial('asked', outcome.detail, { ...runs, attempts: runs.attempts + 1 })
    case 'crash':
      return isOnce ? burial('outcome-unknown', outcome.detail, runs) : failed(outcome, runs, rules)
    default:
      return failed(outcome, runs, rules)
  }
}

/** What a run left that never ended: undefined if the task may run, with `past` as what remains of the mark. */
export function pastVerdict(
  past: Past,
  lastRun: LastRun | undefined,
  runs: Runs,
  rules: Rules,
): Burial | Again | { readonly kind: 'run'; readonly past: Past } {
  if (past === 'none') return { kind: 'run', past }
  if (lastRun?.kind === 'cancelled') return burial('cancelled', lastRun.detail, runs)
  const cause = lastRun?.kind === 'crash' ? lastRun.cause : 'its worker ended'
  if (past === 'died-once') return burial('outcome-unknown', `${cause}; ${CUT_SHORT}`, runs)
  if (lastRun?.kind === 'blameless') return { kind: 'run', past: 'none' }
  if (past === 'died-beside') return { kind: 'run', past }
  return failed({ kind: 'crash', detail: cause }, runs, rules)
}

function failed(
  failure: Extract<Outcome, { kind: 'retry' | 'error' | 'crash' }>,
  before: Runs,
  rules: Rules,
): Burial | Again {
  const { kind, detail } = failure
  const runs = {
    attempts: before.attempts + 1,
    crashes: before.crashes + (kind === 'crash' ? 1 : 0),
    policy: failure.kind === 'retry' ? { ...before.policy, ...failure.policy } : before.policy,
  }
  const policy = { ...rules.policy, ...rules.terms?.policy, ...runs.policy }
  const limit = limitReached(policy, runs)
  if (limit !== undefined)
    return burial(
      limit.reason,
      detail === undefined ? limit.detail : `${limit.detail}${LAST_ERROR}${detail}`,
      runs,
    )
  if (failure.kind === 'crash')
    return {
      kind: 'again',
      as: 'later',
      delayMs: crashDelayMs(runs.crashes, rules.frequencyMs),
      detail,
      runs,
    }
  const wishMs = failure.delayMs
  const delayMs = Math.min(wishMs ?? retryDelayMs(policy, runs.attempts, rules.frequencyMs), LONGEST_DELAY_MS)
  return { kind: 'again', as: failure.kind, delayMs, detail, runs }
}

function burial(reason: BuryReason, detail: string, runs: Runs): Burial {
  return { kind: 'bury', reason, detail, runs }
}
