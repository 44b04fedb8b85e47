/** What can be wrong in a spool; docs/operations.md explains each kind. */
type FindingKind =
  | 'state-directory' // .spoold, or a directory in it, is something else
  | 'rights' // mode or owner keep the spool's user out
  | 'unfinished' // left by a dead writer, under a hidden name
  | 'promised' // left by a dead writer, but promised under an id
  | 'litter' // left by a dead daemon in .spoold
  | 'id-expired'
  | 'id-broken'
  | 'lease-stale'
  | 'record-orphan' // its task is gone
  | 'record-stale' // the file of its task is not marked, so the record belonged to another task
  | 'record-broken'
  | 'mark-unrecorded' // marked as recorded, but there is no record
  | 'run-open' // a run started and did not end, and nothing runs it
  | 'done-left' // ran to SPOOL_OK, but could not be removed
  | 'burial-open' // should be buried, but could not be
  | 'unvisited' // tasks in a directory that is not scanned
  | 'dead-unexplained' // a dead letter without its reason
  | 'dead-missing' // a reason without its file
  | 'pause-broken' // it is unknown what is paused, so everything is
  | 'paused' // something is paused
  | 'periodic-broken' // it is unknown when a periodic task is due
  | 'unchecked' // could not be examined
  | 'in-use' // a daemon uses the spool

export interface Finding {
  readonly kind: FindingKind
  /** Relative to the spool, a byte string; '' is the spool itself. */
  readonly path: string
  readonly meaning: string
  /** What fixes the finding: a command, or what --repair does; '' if nothing is wrong. */
  readonly fix: string
  /** True if it is worth knowing, but not certainly wrong. */
  readonly isNote?: true
  /** True if the finding still holds. It is asked a moment later, and before a repair, because a live spool changes. */
  isStill?(): boolean
  /**
   * Repairs it. Absent if only people can decide. Called if the finding still holds; under a lock, where there is one, it checks
   * again.
   */
  repair?(): Promise<Repair> | Repair
}

export type Repair =
  | { readonly kind: 'repaired'; readonly detail?: string }
  /** There is nothing to repair any more, or the file is in use. */
  | { readonly kind: 'over' }
  | { readonly kind: 'left'; readonly detail: string }

export const REPAIRED: Repair = { kind: 'repaired' }
export const OVER: Repair = { kind: 'over' }
