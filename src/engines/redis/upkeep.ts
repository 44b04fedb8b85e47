import { randomUUID } from 'node:crypto'
import { counted } from '../../base/counted.js'
import { doEach } from '../../base/each.js'
import type { Member } from '../../base/task/member.js'
import type { BuryReason } from '../../base/task/outcome.js'
import type { Pauses } from '../../base/task/pause.js'
import type { Lease, LeaseListener, PeriodicStates, SchedulePauses } from '../../base/task/schedule.js'
import type {
  DeadStats,
  PauseFollower,
  Purged,
  PurgeLimits,
  SweepAges,
  Swept,
  Upkeep,
  UpkeepStats,
} from '../contracts/upkeep.js'
import type { Connection } from './connection.js'
import { Membership } from './membership.js'
import { periodicStates } from './periodic-states.js'
import { limitedKey, queuesOf, type SpoolQueue } from './queues.js'
import { PauseWatch, readPauses } from './records/pauses.js'
import { inWords, unlessUnreadable } from './store-failure.js'
import { jsonIn, reasonOf, recordOf } from './task-job.js'

const LEASE_MS = 15_000
/** The most jobs of one set that are read. */
const READ_AT_MOST = 1000
/** The most schedules that may be paused, because each pause takes memory until it ends, and a daemon reads them all. */
const MOST_PAUSED = 4096

/** Upkeep of a spool on Redis. BullMQ removes whole jobs, so a removed task leaves no records. */
export class RedisUpkeep implements Upkeep {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  prepare(): void {}

  sweep({ idTtlMs }: SweepAges): Promise<Swept> {
    return inWords(() => this.#sweep(idTtlMs))
  }

  async #sweep(idTtlMs: number): Promise<Swept> {
    let forgotten = 0
    for (let count = READ_AT_MOST; idTtlMs > 0 && count === READ_AT_MOST; forgotten += count) {
      const before = Math.floor((await this.#connection.nowMs()) - idTtlMs)
      const keys = [this.#connection.key('spoold:ids'), this.#connection.key('spoold:id:')]
      count = Number(await this.#connection.run('forgetIds', ...keys, before, READ_AT_MOST))
    }
    return { removed: 0, published: 0, givenBack: 0, forgotten }
  }

  purge(limits: PurgeLimits, passed?: () => void, signal?: AbortSignal): Promise<Purged> {
    return inWords(() => this.#purge(limits, passed, signal))
  }

  async #purge(
    { maxAgeMs, maxCount }: PurgeLimits,
    passed?: () => void,
    signal?: AbortSignal,
  ): Promise<Purged> {
    const nowMs = await this.#connection.nowMs()
    /**
     * Jobs that Redis has said are removed. If one is there again, it stays: its id is not valid text, so the command names
     * another id.
     */
    let said: ReadonlySet<string> = new Set()
    for (let removed = 0; ; ) {
      const { count, jobs } = await deadJobs(this.#connection)
      const tooMany = maxCount === null ? 0 : count - maxCount
      const isOver = (atMs: number, i: number) =>
        i < tooMany || (maxAgeMs !== null && atMs < Math.floor(nowMs - maxAgeMs))
      const over = jobs.filter(({ atMs }, i) => isOver(atMs, i))
      const fresh = over.filter(({ id }) => !said.has(id))
      const gone = new Set<string>()
      const removeOne = async ({ queue, id }: (typeof over)[number]) => {
        if ((await queue.remove(id)) > 0) gone.add(id)
        passed?.()
      }
      await doEach(fresh, removeOne, { signal })
      removed += gone.size
      if (over.length === 0 || signal?.aborted === true) return { removed, fault: undefined }
      if (gone.size === 0)
        return {
          removed: removed - (over.length - fresh.length),
          fault: `BullMQ removed none of ${counted(over.length, 'failed job')}`,
        }
      said = new Set(over.flatMap(({ id }) => (said.has(id) || gone.has(id) ? id : [])))
    }
  }

  /**
   * Forgets the names of limited tasks that nobody stores any more. There are no records to remove, because they go with their
   * jobs.
   */
  forget(ageMs: number): Promise<number> {
    const limited = limitedKey(this.#connection)
    return inWords(async () => Number(await this.#connection.run('forgetLimited', limited, ageMs)))
  }

  async stats(): Promise<UpkeepStats> {
    const [dead, failed, paused] = await Promise.all([
      this.#dead(),
      this.#failed(),
      readPauses(this.#connection),
    ])
    return { dead, records: failed, paused, disk: null }
  }

  async #dead(): Promise<DeadStats> {
    const { count, jobs, newestMs } = await deadJobs(this.#connection)
    const byReason: Partial<Record<BuryReason, number>> = {}
    for (const reason of (await this.#records(jobs)).map(reasonOf))
      byReason[reason] = (byReason[reason] ?? 0) + 1
    const unread = count - jobs.length
    if (unread > 0) byReason.unknown = (byReason.unknown ?? 0) + unread
    return {
      ...{ count, isWhole: true, byReason },
      ...{ oldestMs: jobs[0]?.atMs ?? null, newestMs },
    }
  }

  /** Counts the failed tasks that wait for their next run. A failed task that is due again is not among them. */
  async #failed(): Promise<UpkeepStats['records']> {
    const all = await Promise.all((await queuesOf(this.#connection)).map(queue => this.#failedIn(queue)))
    const count = all.reduce((sum, each) => sum + each.count, 0)
    return { count, isWhole: all.every(({ isWhole }) => isWhole) }
  }

  async #failedIn(queue: SpoolQueue): Promise<UpkeepStats['records']> {
    const { redis } = this.#connection
    const [ids, later, due] = await queue.use(() =>
      Promise.all([
        redis.zrange(queue.key('delayed'), 0, READ_AT_MOST - 1),
        redis.zcard(queue.key('delayed')),
        redis.zcard(queue.key('prioritized')),
      ]),
    )
    const records = await this.#records(ids.map(id => ({ queue, id })))
    const count = records.filter(({ attempts }) => attempts > 0).length
    return { count, isWhole: later <= READ_AT_MOST && due === 0 }
  }

  async #records(jobs: ReadonlyArray<{ readonly queue: SpoolQueue; readonly id: string }>) {
    const { redis } = this.#connection
    const texts = await this.#connection.use(() =>
      Promise.all(jobs.map(({ queue, id }) => redis.hget(queue.key(id), 'progress').catch(unlessUnreadable))),
    )
    return texts.map(text => recordOf({ progress: jsonIn(text ?? '') }))
  }

  /**
   * @see Upkeep.takeLease. A lease also ends when the clock of Redis is set forward. Its last holder learns of that at its next
   * renewal, and is remembered under a key that does not end.
   */
  async takeLease(name: string, listener: LeaseListener): Promise<Lease | undefined> {
    const { redis } = this.#connection
    const key = this.#connection.key(`spoold:lease:${name}`)
    const holderKey = this.#connection.key(`spoold:holder:${name}`)
    const token = randomUUID()
    await this.#connection.reach(listener.givenUp)
    const taken = await this.#connection.use(() => redis.set(key, token, 'PX', LEASE_MS, 'NX'))
    if (taken === null) return undefined
    const before = await this.#connection.use(() => redis.set(holderKey, token, 'GET'))
    let validUntilMs = Date.now() + LEASE_MS
    const renewal = setInterval(async () => {
      const askedAt = Date.now()
      const isOurs = await this.#connection
        .run('handOver', key, token, token, LEASE_MS)
        .catch(() => undefined)
      if (isOurs === 1) {
        validUntilMs = askedAt + LEASE_MS
        listener.renewed()
      } else if (isOurs === 0 || Date.now() > validUntilMs) {
        clearInterval(renewal)
        listener.lost()
      }
    }, LEASE_MS / 3).unref()
    return {
      get validUntilMs() {
        return validUntilMs
      },
      isTakenOver: before !== null,
      release: async () => {
        clearInterval(renewal)
        await this.#connection.run('letGo', holderKey, token)
        await this.#connection.run('letGo', key, token)
      },
    }
  }

  followPauses(changed: (pauses: Pauses) => void): PauseFollower {
    return new PauseWatch(this.#connection, changed)
  }

  join(member: Member): () => Promise<void> {
    const membership = new Membership(this.#connection, member)
    return () => membership.leave()
  }

  get periodic(): PeriodicStates {
    return periodicStates(this.#connection)
  }

  get schedulePauses(): SchedulePauses {
    return schedulePauses(this.#connection)
  }
}

interface DeadJob {
  readonly queue: SpoolQueue
  readonly id: string
  /** When it was buried; epoch ms. */
  readonly atMs: number
}

interface DeadJobs {
  readonly count: number
  /** The oldest of all queues together, the oldest first. */
  readonly jobs: readonly DeadJob[]
  readonly newestMs: number | null
}

/** Returns the dead letters of all queues. */
async function deadJobs(connection: Connection): Promise<DeadJobs> {
  const found = await Promise.all((await queuesOf(connection)).map(deadIn))
  const newest = found.flatMap(({ newestMs }) => newestMs ?? [])
  const jobs = found.flatMap(each => each.jobs).sort((a, b) => a.atMs - b.atMs)
  return {
    count: found.reduce((sum, { count }) => sum + count, 0),
    jobs: jobs.slice(0, READ_AT_MOST),
    newestMs: newest.length === 0 ? null : Math.max(...newest),
  }
}

async function deadIn(queue: SpoolQueue): Promise<DeadJobs> {
  const { redis } = queue.connection
  const key = queue.key('failed')
  const [count, pairs, [, newest]] = await queue.use(() =>
    Promise.all([
      redis.zcard(key),
      redis.zrange(key, 0, READ_AT_MOST - 1, 'WITHSCORES'),
      redis.zrange(key, '-1', '-1', 'WITHSCORES'),
    ]),
  )
  const jobs = pairs.flatMap((id, i) => (i % 2 === 0 ? [{ queue, id, atMs: Number(pairs[i + 1]) }] : []))
  return { count, jobs, newestMs: newest === undefined ? null : Number(newest) }
}

/** The paused schedules of a spool: the hash `spoold:schedule-pauses` has since when, by the clock of Redis. */
function schedulePauses(connection: Connection): SchedulePauses {
  const key = connection.key('spoold:schedule-pauses')
  const { redis } = connection
  return {
    async read() {
      const found = await inWords(() => connection.use(() => redis.hgetall(key)))
      return new Map(Object.entries(found).map(([hash, sinceMs]) => [hash, Number(sinceMs) || 0]))
    },
    async pause(hash) {
      if ((await connection.use(() => redis.hlen(key))) >= MOST_PAUSED)
        throw new Error(`${MOST_PAUSED} schedules are paused already`)
      const nowMs = Math.floor(await connection.nowMs())
      await connection.use(() => redis.hsetnx(key, hash, nowMs))
    },
    async resume(hash) {
      return (await connection.use(() => redis.hdel(key, hash))) === 1
    },
  }
}
