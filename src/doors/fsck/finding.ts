/** What can be wrong in a spool; docs/operations.md explains each kind. */
type FindingKind =
  | 'state-directory' // .spoold, or a directory in it, is something else
  | 'rights' // mode or owner keep the spool's user out
  | 'unfinished' // left by a dead writer, under a hidden name
  | 'promised' // the same, but the task was promised under an id
  | 'litter' // left by a dead daemon in .spoold
  | 'id-expired'
  | 'id-broken'
  | 'lease-stale'
  | 'record-orphan' // its task is gone
  | 'record-stale' // its file is not marked: it belonged to another one
  | 'record-broken'
  | 'mark-unrecorded' // marked as recorded, but there is no record
  | 'run-open' // a run started and did not end, and nothing runs it
  | 'done-left' // ran to SPOOL_OK, but could not be removed
  | 'burial-open' // should be buried, but could not be
  | 'unvisited' // tasks in a directory that is not scanned
  | 'dead-unexplained' // a dead letter without its reason
  | 'dead-missing' // a reason without its file
  | 'pause-broken' // it is unknown what is paused, so everything is
  | 'paused' // something is
  | 'periodic-broken' // it is unknown when a periodic task is due
  | 'unchecked' // could not be examined
  | 'in-use' // a daemon uses the spool

export interface Finding {
  readonly kind: FindingKind
  /** Relative to the spool, a byte string; '' is the spool itself. */
  readonly path: string
  readonly meaning: string
  /** What fixes it: a command, or what --repair does; '' if nothing is wrong. */
  readonly fix: string
  /** Worth knowing, but not certainly wrong. */
  readonly isNote?: true
  /** Asked a moment later, and before a repair, because a live spool changes. */
  isStill?(): boolean
  /** Absent if only people can decide. Called if it is still so; where there is a lock, it looks again under that. */
  repair?(): Promise<Repair> | Repair
}

export type Repair =
  | { readonly kind: 'repaired'; readonly detail?: string }
  /** There is nothing to repair any more, or it is in use. */
  | { readonly kind: 'over' }
  | { readonly kind: 'left'; readonly detail: string }

export const REPAIRED: Repair = { kind: 'repaired' }
export const OVER: Repair = { kind: 'over' }
