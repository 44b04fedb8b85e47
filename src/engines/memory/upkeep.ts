import { NO_PAUSES } from '../../base/task/pause.js'
import type { Lease, PeriodicStates, SchedulePauses } from '../../base/task/schedule.js'
import type {
  PauseFollower,
  Purged,
  PurgeLimits,
  SweepAges,
  Swept,
  Upkeep,
  UpkeepStats,
} from '../contracts/upkeep.js'
import type { MemorySpool } from './spool.js'

/** Upkeep of a spool of this process. Writers cannot leave anything behind there, and a removed task leaves no records. */
export class MemoryUpkeep implements Upkeep {
  readonly #spool: MemorySpool

  constructor(spool: MemorySpool) {
    this.#spool = spool
  }

  prepare(): void {}

  async sweep({ idTtlMs }: SweepAges): Promise<Swept> {
    let forgotten = 0
    const { ids } = this.#spool
    if (idTtlMs > 0)
      for (const [id, { sinceMs }] of ids)
        if (sinceMs < Date.now() - idTtlMs) forgotten += Number(ids.delete(id))
    return { removed: 0, published: 0, givenBack: 0, forgotten }
  }

  async purge({ maxAgeMs, maxCount }: PurgeLimits): Promise<Purged> {
    const { dead } = this.#spool
    const before = dead.size
    for (const [ref, { buriedAt }] of dead) {
      const isTooMany = maxCount !== null && dead.size > maxCount // the oldest come first
      if (isTooMany || (maxAgeMs !== null && buriedAt < Date.now() - maxAgeMs)) dead.delete(ref)
    }
    return { removed: before - dead.size, fault: undefined }
  }

  async forget(): Promise<number> {
    return 0
  }

  async stats(): Promise<UpkeepStats> {
    const byReason: Record<string, number> = {}
    let [oldestMs, newestMs]: [number | null, number | null] = [null, null]
    for (const { reason, buriedAt } of this.#spool.dead.values()) {
      byReason[reason] = (byReason[reason] ?? 0) + 1
      oldestMs = Math.min(oldestMs ?? buriedAt, buriedAt)
      newestMs = Math.max(newestMs ?? buriedAt, buriedAt)
    }
    const failed = [...this.#spool.tasks.values()].filter(({ attempts }) => attempts > 0).length
    return {
      dead: { count: this.#spool.dead.size, isWhole: true, byReason, oldestMs, newestMs },
      records: { count: failed, isWhole: true },
      paused: NO_PAUSES,
      disk: null,
    }
  }

  /** The lease never has to be renewed, because its holder ends with this process. */
  async takeLease(name: string): Promise<Lease | undefined> {
    const { leases } = this.#spool
    if (leases.has(name)) return undefined
    leases.add(name)
    let isHeld = true
    return {
      validUntilMs: Number.POSITIVE_INFINITY,
      isTakenOver: false,
      async release() {
        if (isHeld) leases.delete(name)
        isHeld = false
      },
    }
  }

  /** There is nothing to follow, because no other process can reach the spool. */
  followPauses(): PauseFollower {
    return { async start() {}, close() {} }
  }

  get periodic(): PeriodicStates {
    const { periodic, tasks } = this.#spool
    const versionOf = (name: string) => periodic.get(name)?.version ?? 0
    return {
      read: () => new Map(periodic),
      keyOf: name => name,
      newTask: () => this.#spool.newName(),
      async advance(entry, from) {
        if (versionOf(entry.name) !== from) return false
        periodic.set(entry.name, { version: from + 1, entry })
        return true
      },
      forget: (name, version) => {
        if (versionOf(name) <= version) periodic.delete(name)
      },
      fateOf: name => {
        const task = tasks.get(name)
        if (task === undefined) return 'gone'
        return task.past === 'none' ? 'waiting' : 'begun'
      },
    }
  }

  get schedulePauses(): SchedulePauses {
    const { schedulePauses } = this.#spool
    return {
      read: () => new Map(schedulePauses),
      async pause(hash) {
        if (!schedulePauses.has(hash)) schedulePauses.set(hash, Date.now())
      },
      async resume(hash) {
        return schedulePauses.delete(hash)
      },
    }
  }
}
