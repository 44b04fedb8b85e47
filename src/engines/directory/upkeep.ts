import type { Pauses } from '../../base/task/pause.js'
import { displayName, toByteString } from '../../base/task/ref.js'
import type { PeriodicStates, SchedulePauses } from '../../base/task/schedule.js'
import { SpoolSummary } from '../spool/admin/summary.js'
import { PauseWatch } from '../spool/index/pause-watch.js'
import { type LockKind, takeSpoolLease } from '../spool/locker.js'
import { createTaskName } from '../spool/names.js'
import { currentPauses } from '../spool/pauses.js'
import {
  advancePeriodic,
  fateOfRun,
  forgetPeriodic,
  pauseSchedule,
  periodicKey,
  readPeriodic,
  readSchedulePauses,
  resumeSchedule,
} from '../spool/periodic-states.js'
import { noteFormat } from '../spool/probe.js'
import type {
  Lease,
  LeaseListener,
  PauseFollower,
  Purged,
  PurgeLimits,
  SweepAges,
  Swept,
  Upkeep,
  UpkeepStats,
} from '../upkeep.js'

/** Keeps a spool directory and its `.spoold` in order. What is done now and then is loaded then: each start would wait for it. */
export class DirectoryUpkeep implements Upkeep {
  readonly #spool: string
  #summary: SpoolSummary | undefined

  /** @param spool the real path */
  constructor(spool: string) {
    this.#spool = spool
  }

  prepare(locks: LockKind): void {
    noteFormat(this.#spool, locks)
  }

  async sweep(ages: SweepAges): Promise<Swept> {
    const { sweepSpool } = await import('../spool/admin/sweep.js')
    return await sweepSpool({ spool: toByteString(this.#spool), ...ages })
  }

  async purge(limits: PurgeLimits): Promise<Purged> {
    const { purge } = await import('../spool/admin/letters.js')
    const { removed, fault } = await purge(this.#spool, limits)
    return { removed, fault }
  }

  async forget(ageMs: number): Promise<number> {
    const { sweepRecords } = await import('../spool/admin/sweep.js')
    return await sweepRecords(toByteString(this.#spool), Date.now() - ageMs)
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
    const spool = toByteString(this.#spool)
    return {
      read: () => readPeriodic(spool),
      keyOf: periodicKey,
      newTask: () => displayName(createTaskName()),
      advance: (entry, from, isLasting) => advancePeriodic(spool, entry, from, isLasting),
      forget: (key, version) => forgetPeriodic(spool, key, version),
      fateOf: task => fateOfRun(spool, toByteString(task)),
    }
  }

  get schedulePauses(): SchedulePauses {
    const spool = toByteString(this.#spool)
    return {
      read: () => readSchedulePauses(spool),
      pause: hash => pauseSchedule(spool, hash),
      resume: hash => resumeSchedule(spool, hash),
    }
  }
}
