/** What can be wrong in a spool; docs/operations.md explains each. */
export type FindingKind =
  | 'state-directory' // .spoold, or a room in it, is something else
  | 'rights' // mode or owner keep the spool's user out
  | 'unfinished' // what a writer that died left, under a hidden name
  | 'promised' // the same, of a task that was promised under an id
  | 'litter' // what a daemon that died left in .spoold
  | 'id-expired'
  | 'id-broken'
  | 'lease-stale'
  | 'record-orphan' // its task is gone
  | 'record-stale' // its file has no mark of it: it was another one's
  | 'record-broken'
  | 'mark-unrecorded' // marked as recorded, and there is no record
  | 'run-open' // a run began, did not end, and nobody runs it
  | 'done-left' // ran to SPOOL_OK, and could not be removed
  | 'burial-open' // was to be buried, and could not be
  | 'unvisited' // tasks in a directory that nobody scans
  | 'dead-unexplained' // a dead letter without its reason
  | 'dead-missing' // a reason without its file
  | 'unchecked' // could not be looked at
  | 'in-use' // a daemon works here

export interface Finding {
  readonly kind: FindingKind
  /** Below the spool, a byte string; '' is the spool itself. */
  readonly path: string
  readonly meaning: string
  /** What fixes it: a command, or what --repair does; '' when nothing is wrong. */
  readonly fix: string
  /** Worth knowing, and not wrong for sure. */
  readonly isNote?: true
  /** Asked a moment later: what lives is in motion. */
  isStill?(): boolean
  /** Absent where only people can decide. It looks again, under the lock where there is one. */
  repair?(): Promise<Repair> | Repair
}

export type Repair =
  | { readonly kind: 'repaired'; readonly detail?: string }
  /** Somebody else was quicker: there is nothing to fix any more, or it is in use. */
  | { readonly kind: 'over' }
  | { readonly kind: 'left'; readonly detail: string }

export const REPAIRED: Repair = { kind: 'repaired' }
export const OVER: Repair = { kind: 'over' }
