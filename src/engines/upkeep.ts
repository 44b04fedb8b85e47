/** How old something has to be. 0: it is left alone. */
export interface SweepAges {
  /** What a writer left, and has not changed for so long: it is dead, unless it says otherwise. */
  readonly graceMs: number
  /** Ids that callers gave. */
  readonly idTtlMs: number
}

export interface Swept {
  /** What dead writers left. */
  readonly removed: number
  /** Tasks that were promised under an id, and whose writer died before it published them. */
  readonly published: number
  /** Tasks that took the name of a finished task just as that was removed. */
  readonly givenBack: number
  /** Ids that were forgotten: a task with one of them is stored again. */
  readonly forgotten: number
}

export interface PurgeLimits {
  /** Dead letters that are older are removed. null: however old. */
  readonly maxAgeMs: number | null
  /** Of more, the oldest are removed. null: however many. */
  readonly maxCount: number | null
}

export interface Purged {
  readonly removed: number
  /** What kept others from being removed. */
  readonly fault: string | undefined
}

/** A right that one process has at a time, and keeps renewing. */
export interface Lease {
  /** Epoch ms. Nobody else has it before then. */
  readonly validUntilMs: number
  /** Taken over from a dead holder: another process may believe the same until the first renewal. */
  readonly isTakenOver: boolean
  release(): Promise<void>
}

/** What happens to a lease while it is held. */
export interface LeaseListener {
  /** It could not be renewed: somebody else may have it. */
  lost(): void
  renewed(): void
}

/**
 * What keeps a spool in order beside the road of its tasks. No task is touched that is due, waits, or runs. Any number of
 * processes may do the same at the same time.
 */
export interface Upkeep {
  /** Before its tasks are run. Again is fine; nothing depends on it. */
  prepare(): void
  /** Removes what dead writers left, and forgets ids. @throws what keeps it from being looked at */
  sweep(ages: SweepAges): Promise<Swept>
  /** Removes dead letters beyond the limits. @throws what keeps them from being listed */
  purge(limits: PurgeLimits): Promise<Purged>
  /**
   * Removes what is known of failed runs of tasks that are gone.
   *
   * @param ageMs what is younger is left alone
   * @returns of how many tasks
   */
  forget(ageMs: number): Promise<number>
  /** Resolves with undefined while somebody else has the lease of this name. */
  takeLease(name: string, listener: LeaseListener): Promise<Lease | undefined>
}
