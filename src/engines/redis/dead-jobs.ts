import type { Connection } from './connection.js'
import { queuesOf, type SpoolQueue } from './queues.js'

/** Of more jobs in one set only so many are read. */
export const READ_AT_MOST = 1000

interface DeadJob {
  readonly queue: SpoolQueue
  readonly id: string
  /** When it was buried; epoch ms. */
  readonly atMs: number
}

interface DeadJobs {
  readonly count: number
  /** The oldest of all queues, the first one first. */
  readonly jobs: readonly DeadJob[]
  readonly newestMs: number | null
}

/** The dead letters of all queues. */
export async function deadJobs(connection: Connection): Promise<DeadJobs> {
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
