import type { SchedulePauses } from '../../base/task/schedule.js'
import type { Connection } from './connection.js'
import { inWords } from './store-failure.js'

/** Each takes memory until it is resumed, and a daemon reads them all. */
const MOST = 4096

/** What people have paused of the schedules of a spool: the hash `spoold:schedule-pauses`, since when by the clock of Redis. */
export function schedulePauses(connection: Connection): SchedulePauses {
  const key = connection.key('spoold:schedule-pauses')
  const { redis } = connection
  return {
    async read() {
      const found = await inWords(() => connection.use(() => redis.hgetall(key)))
      return new Map(Object.entries(found).map(([hash, sinceMs]) => [hash, Number(sinceMs) || 0]))
    },
    async pause(hash) {
      if ((await connection.use(() => redis.hlen(key))) >= MOST)
        throw new Error(`${MOST} schedules are paused already`)
      const nowMs = Math.floor(await connection.nowMs())
      await connection.use(() => redis.hsetnx(key, hash, nowMs))
    },
    async resume(hash) {
      return (await connection.use(() => redis.hdel(key, hash))) === 1
    },
  }
}
