import { COARSEST_TIME_MS } from '../own-clock.js'

/** What the master knows about how a task's last run was interrupted. Whether there was such a run is in the file. */
export type LastRun = CutShort & {
  /** From when to when that process had the task, epoch ms; absent if the run is known to be that process's own. */
  readonly from?: number
  readonly to?: number
}

type CutShort =
  /** The run ended through no fault of the task: treat the task as if it had not started. */
  | { readonly kind: 'blameless' }
  /** People cancelled it: it does not run again. `detail` is for its dead letter. */
  | { readonly kind: 'cancelled'; readonly detail: string }
  /**
   * `cause`: how its process died, as the end of a sentence that begins with "it". `latest`: a task that began later is
   * blameless; epoch ms.
   */
  | { readonly kind: 'crash'; readonly cause: string; readonly latest?: number }

/**
 * Returns what is known of the run that marked its file at this time. A process is to blame, or to excuse, only for marks
 * that were made while it had the task.
 */
export function lastRunAt(lastRun: LastRun | undefined, markedAtMs: number): LastRun | undefined {
  if (lastRun === undefined) return undefined
  const { from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY } = lastRun
  if (markedAtMs < from - COARSEST_TIME_MS || markedAtMs > to + COARSEST_TIME_MS) return undefined
  const isYounger = lastRun.kind === 'crash' && markedAtMs > (lastRun.latest ?? Number.POSITIVE_INFINITY)
  return isYounger ? { kind: 'blameless' } : lastRun
}
