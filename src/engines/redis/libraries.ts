import { errnoOf, SpooldError } from '../../base/errors.js'

export type { JobJson, Queue, RedisQueueBackend } from 'bullmq'
export type { Cluster, ClusterOptions, Redis, RedisCommander, RedisOptions } from 'ioredis'
/** The client of a queue, as BullMQ uses it. */
export type Client = Awaited<ReturnType<import('bullmq').Queue['getBackend']>['client']>
export type Libraries = Awaited<ReturnType<typeof loadLibraries>>

const MISSING = new Set(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'])

/** The optional libraries of this engine; nobody else needs them. @throws SpooldError LIBRARY_MISSING */
export async function loadLibraries() {
  try {
    const [{ Job, Queue, raw2NextJobData }, { Cluster, Redis }] = await Promise.all([
      import('bullmq'),
      import('ioredis'),
    ])
    return { Job, Queue, raw2NextJobData, Cluster, Redis }
  } catch (error) {
    if (!MISSING.has(errnoOf(error) ?? '')) throw error
    throw new SpooldError(
      'LIBRARY_MISSING',
      'a spool on Redis needs the packages bullmq and ioredis, which are not installed beside spoold: npm install bullmq ioredis',
      { cause: error },
    )
  }
}
