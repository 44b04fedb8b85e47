import type { Member } from '../../base/task/member.js'
import type { Pauses } from '../../base/task/pause.js'
import type { Lease, LeaseListener, PeriodicStates, SchedulePauses } from '../../base/task/schedule.js'

/** Minimum ages for removal. 0: never remove. */
export interface SweepAges {
  /** How long a writer's files must not have changed: then the writer counts as dead, unless its file says otherwise. */
  readonly graceMs: number
  /** How long ids that callers gave are remembered. */
  readonly idTtlMs: number
}

export interface Swept {
  /** Files that dead writers left. */
  readonly removed: number
  /** Tasks that were promised under an id, and whose writer died before it published them. */
  readonly published: number
  /**
   * Tasks that were moved away by mistake, and got a name again: each had taken the name of a finished task just as that one
   * was removed.
   */
  readonly givenBack: number
  /** Expired ids: a task with one of them is stored again. */
  readonly forgotten: number
}

export interface PurgeLimits {
  /** Dead letters that are older than this are removed; null: no limit. */
  readonly maxAgeMs: number | null
  /** If there are more than this, the oldest are removed; null: no limit. */
  readonly maxCount: number | null
}

export interface Purged {
  readonly removed: number
  /** Why others could not be removed. */
  readonly fault: string | undefined
}

/** The figures of a spool besides those of tasks that are due, waiting or running. */
export interface UpkeepStats {
  readonly dead: DeadStats
  /** How many tasks have a record, because they failed or are held; a lower bound unless `isWhole`. */
  readonly records: { readonly count: number; readonly isWhole: boolean }
  /** The pauses that people have set, and that are not over. */
  readonly paused: Pauses
  /** Where the tasks are stored; null: unknown, or the file system does not answer. */
  readonly disk: DiskStats | null
}

/**
 * Dead letters. If there are very many, only the first are read: then `isWhole` is false, and `count` is a lower bound; or the
 * store knows their number, and the reasons of the others count as `unknown`.
 */
export interface DeadStats {
  readonly count: number
  readonly isWhole: boolean
  readonly byReason: Readonly<Record<string, number>>
  /** When the first and the last of them was buried; epoch ms. */
  readonly oldestMs: number | null
  readonly newestMs: number | null
}

export interface DiskStats {
  readonly freeBytes: number
  readonly totalBytes: number
  /** 0 of 0: the file system has no such limit. */
  readonly freeInodes: number
  readonly totalInodes: number
}

/** Follows what people pause. */
export interface PauseFollower {
  /** Resolves when what is paused now is known; nothing may start before. Called once. */
  start(): Promise<void>
  close(): void
}

/**
 * Upkeep of a spool apart from running its tasks. Tasks that are due, waiting or running are never touched. Any
 * number of processes may do it at the same time.
 */
export interface Upkeep {
  /** Call it before tasks of the spool are run. It may be called again, and is optional. @param locks how they are claimed */
  prepare(locks: 'ofd' | 'lockfile'): void
  /** Removes what dead writers left, and expired ids. @throws why the spool cannot be scanned */
  sweep(ages: SweepAges): Promise<Swept>
  /** Removes dead letters beyond the limits. @throws why they cannot be listed */
  purge(limits: PurgeLimits): Promise<Purged>
  /**
   * Removes records of failed runs whose tasks are gone.
   *
   * @param ageMs younger records are left alone
   * @returns how many tasks' records were removed
   */
  forget(ageMs: number): Promise<number>
  /**
   * Returns what the spool holds, as far as that can be read. It reads a bounded number of files, and parts may be seconds
   * old.
   */
  stats(): Promise<UpkeepStats>
  /** Resolves with undefined while another process has the lease of this name. */
  takeLease(name: string, listener: LeaseListener): Promise<Lease | undefined>
  /** @param changed called within a second of a change, with all that is paused */
  followPauses(changed: (pauses: Pauses) => void): PauseFollower
  /**
   * Makes it known that a process runs tasks of this spool, and lets people on other machines end what that process runs.
   * Absent where the processes of a spool are found in the spool itself.
   *
   * @returns a function to be called when the process no longer runs any
   */
  join?(member: Member): () => Promise<void>
  readonly periodic: PeriodicStates
  readonly schedulePauses: SchedulePauses
}
