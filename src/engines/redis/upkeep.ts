import { randomUUID } from 'node:crypto'
import { SpooldError } from '../../base/errors.js'
import { NO_PAUSES } from '../../task/pause.js'
import type { PeriodicStates } from '../../task/periodic.js'
import type {
  DeadStats,
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
import type { Connection } from './connection.js'
import { recordOf } from './task-job.js'

/** Of more dead letters, or of more failed tasks, only so many are read. */
const READ_AT_MOST = 1000
const LEASE_MS = 15_000

/** Upkeep of a spool on Redis. BullMQ removes whole jobs, so a removed task leaves no records. */
export class RedisUpkeep implements Upkeep {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  prepare(): void {}

  async sweep({ idTtlMs }: SweepAges): Promise<Swept> {
    let forgotten = 0
    for (let count = READ_AT_MOST; idTtlMs > 0 && count === READ_AT_MOST; forgotten += count) {
      const before = Math.floor((await this.#connection.nowMs()) - idTtlMs)
      const keys = [this.#connection.key('spoold:ids'), this.#connection.key('spoold:id:')]
      count = Number(await this.#connection.run('forgetIds', ...keys, before, READ_AT_MOST))
    }
    return { removed: 0, published: 0, givenBack: 0, forgotten }
  }

  async purge({ maxAgeMs, maxCount }: PurgeLimits): Promise<Purged> {
    const { redis } = this.#connection
    const failed = this.#connection.key('failed')
    const before = maxAgeMs === null ? null : (await this.#connection.nowMs()) - maxAgeMs
    let removed = 0
    for (;;) {
      const tooMany =
        maxCount === null
          ? 0
          : Math.max(0, (await this.#connection.use(() => redis.zcard(failed))) - maxCount)
      const last = before === null ? '-inf' : `(${Math.floor(before)}`
      const ids = await this.#connection.use(() =>
        tooMany > 0
          ? redis.zrange(failed, 0, Math.min(tooMany, READ_AT_MOST) - 1)
          : redis.zrangebyscore(failed, '-inf', last, 'LIMIT', 0, READ_AT_MOST),
      )
      if (ids.length === 0) return { removed, fault: undefined }
      for (const id of ids)
        removed += await this.#connection.use(queue => queue.getBackend().remove(id, false))
    }
  }

  async forget(): Promise<number> {
    return 0
  }

  async stats(): Promise<UpkeepStats> {
    const [dead, failed] = await Promise.all([this.#dead(), this.#failed()])
    return { dead, records: failed, paused: NO_PAUSES, disk: null }
  }

  async #dead(): Promise<DeadStats> {
    const { redis } = this.#connection
    const key = this.#connection.key('failed')
    const [count, ids, [, oldest], [, newest]] = await this.#connection.use(() =>
      Promise.all([
        redis.zcard(key),
        redis.zrange(key, 0, READ_AT_MOST - 1),
        redis.zrange(key, '0', '0', 'WITHSCORES'),
        redis.zrange(key, '-1', '-1', 'WITHSCORES'),
      ]),
    )
    const byReason: Record<string, number> = {}
    for (const { reason = 'unknown' } of await this.#records(ids))
      byReason[reason] = (byReason[reason] ?? 0) + 1
    return {
      ...{ count, isWhole: count <= READ_AT_MOST, byReason },
      oldestMs: oldest === undefined ? null : Number(oldest),
      newestMs: newest === undefined ? null : Number(newest),
    }
  }

  /** Those that wait for their next run. One that is due again is not among them. */
  async #failed(): Promise<UpkeepStats['records']> {
    const { redis } = this.#connection
    const [ids, later, due] = await this.#connection.use(() =>
      Promise.all([
        redis.zrange(this.#connection.key('delayed'), 0, READ_AT_MOST - 1),
        redis.zcard(this.#connection.key('delayed')),
        redis.zcard(this.#connection.key('prioritized')),
      ]),
    )
    const count = (await this.#records(ids)).filter(({ attempts }) => attempts > 0).length
    return { count, isWhole: later <= READ_AT_MOST && due === 0 }
  }

  async #records(ids: readonly string[]) {
    const { redis } = this.#connection
    const texts = await this.#connection.use(() =>
      Promise.all(ids.map(id => redis.hget(this.#connection.key(id), 'progress'))),
    )
    return texts.map(text => recordOf({ progress: JSON.parse(text ?? '0') }))
  }

  async takeLease(name: string, listener: LeaseListener): Promise<Lease | undefined> {
    const { redis } = this.#connection
    const key = this.#connection.key(`spoold:lease:${name}`)
    const token = randomUUID()
    const taken = await this.#connection.use(() => redis.set(key, token, 'PX', LEASE_MS, 'NX'))
    if (taken === null) return undefined
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
      isTakenOver: false,
      release: async () => {
        clearInterval(renewal)
        await this.#connection.run('letGo', key, token)
      },
    }
  }

  /** What people pause is kept in a directory. */
  followPauses(): PauseFollower {
    return { async start() {}, close() {} }
  }

  get periodic(): PeriodicStates {
    throw new SpooldError(
      'NOT_ON_REDIS',
      `${this.#connection.name}: periodic tasks need a spool in a directory; a spool on Redis has none yet`,
    )
  }
}
