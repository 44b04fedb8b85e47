import type { LastRun } from '../../base/task/last-run.js'
import type { Ref } from '../../base/task/ref.js'
import type { LastRuns } from '../ipc/messages.js'

/** A ref with the number that the master gave it. */
export interface Assignment {
  readonly number: number
  readonly ref: Ref
  readonly lastRun: LastRun | undefined
  /** The last ref of its message. */
  readonly isLast: boolean
  /** It may run although it has crashed. */
  readonly isItsTurn: boolean
}

export function assignmentsOf(
  first: number,
  refs: readonly Ref[],
  lastRuns: LastRuns,
  isItsTurn = false,
): Assignment[] {
  const lastRunOf = lastRuns.length === 0 ? undefined : new Map(lastRuns)
  return refs.map((ref, i) => ({
    number: first + i,
    ref,
    lastRun: lastRunOf?.get(i),
    isLast: i === refs.length - 1,
    isItsTurn,
  }))
}
