import type { Pauses } from '../../base/task/pause.js'
import { toByteString } from '../../base/task/ref.js'
import type { Lease, LeaseListener, PeriodicStates, SchedulePauses } from '../../base/task/schedule.js'
import type {
  PauseFollower,
  Purged,
  PurgeLimits,
  SweepAges,
  Swept,
  Upkeep,
  UpkeepStats,
} from '../contracts/upkeep.js'
import { SpoolSummary } from '../spool/admin/summary.js'
import { type LockKind, takeSpoolLease } from '../spool/locker.js'
import { currentPauses, PauseWatch } from '../spool/pauses.js'
import { periodicStates, schedulePauses } from '../spool/periodic-states.js'
import { noteFormat } from '../spool/probe.js'
import { type Aside, doHere } from './aside-work.js'

/** Keeps a spool directory and its `.spoold` in order. */
export class DirectoryUpkeep implements Upkeep {
  readonly #spool: string
  readonly #aside: Aside
  #summary: SpoolSummary | undefined

  /** @param spool the real path @param aside does the work on the files of tasks */
  constructor(spool: string, aside: Aside = doHere) {
    this.#spool = spool
    this.#aside = aside
  }

  prepare(locks: LockKind): void {
    noteFormat(this.#spool, locks)
  }

  sweep(ages: SweepAges): Promise<Swept> {
    return this.#aside('sweep', this.#spool, ages)
  }

  purge(limits: PurgeLimits): Promise<Purged> {
    return this.#aside('purge', this.#spool, limits)
  }

  forget(ageMs: number): Promise<number> {
    return this.#aside('forget', this.#spool, ageMs)
  }

  async stats(): Promise<UpkeepStats> {
    const spool = toByteString(this.#spool)
    this.#summary ??= new SpoolSummary(spool)
    return { ...(await this.#summary.take()), paused: currentPauses(spool) }
  }

  takeLease(name: string, listener: LeaseListener): Promise<Lease | undefined> {
    return takeSpoolLease(this.#spool, name, listener)
  }

  followPauses(changed: (pauses: Pauses) => void): PauseFollower {
    return new PauseWatch(toByteString(this.#spool), changed)
  }

  get periodic(): PeriodicStates {
    return periodicStates(toByteString(this.#spool))
  }

  get schedulePauses(): SchedulePauses {
    return schedulePauses(toByteString(this.#spool))
  }
}
