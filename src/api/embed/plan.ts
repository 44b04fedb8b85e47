import type { Emitter } from '../../base/events/emitter.js'
import type { Engine } from '../../engines/open-engine.js'
import { checkSpool, prepareSpool } from '../../engines/spool/permissions.js'
import { probeSpool } from '../../engines/spool/probe.js'
import type { SpoolOptions } from '../../formats/config/option-table.js'
import { defaultsOf } from '../../formats/config/option-values.js'
import { retryPolicyOf } from '../../formats/config/retry-policy.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import type { HandlerSpec, WorkerOptions } from '../../runtime/ipc/messages.js'
import type { MaintainedSpool } from '../../runtime/supervisor/maintenance.js'
import type { SpoolWorkersPlan } from '../../runtime/supervisor/master.js'
import type { PoolOptions } from '../../runtime/supervisor/pool-options.js'
import type { WorkerPort } from '../../runtime/supervisor/worker-port.js'
import { MEMORY } from './memory-queues.js'

/** A spool of a queue that is to be run. */
export interface Place {
  readonly queue: string
  /** The spool's real path, or its name on Redis or in memory. */
  readonly spool: string
  readonly engine: Engine
}

/** How the tasks of a spool are run. */
export interface Running {
  readonly processes: number
  readonly concurrency: number
  readonly chain: readonly HandlerSpec[]
  /** 0: no worker is killed for a slow task. */
  readonly harakiriMs: number
  readonly isListenedTo: boolean
  /** The keys whose values are hidden. */
  readonly hide: readonly string[]
  /** True if several workers share one process. */
  readonly sharesProcess?: boolean
  /** Where handlers' own tasks go, if the workers are not in this process. */
  readonly targets: WorkerOptions['targets']
  readonly queues: WorkerOptions['queues']
  readonly sockets?: NonNullable<WorkerOptions['sockets']>
  readonly namespace?: string
  openPort(): WorkerPort
  readonly openAside?: (() => WorkerPort) | undefined
}

/** The daemon's defaults per spool, which applications cannot change. */
const DEFAULTS = defaultsOf(({ perSpool }) => perSpool === true) as SpoolOptions

/** Engines without files have locks of their own. */
const NO_FILES = { locks: 'ofd', because: undefined } as const

/** Returns the plan of the workers of one spool. @throws SpooldError SPOOL_UNUSABLE */
export async function planQueue(
  { spool, engine }: Place,
  running: Running,
  events: Emitter,
): Promise<SpoolWorkersPlan> {
  const hasFiles = !spool.startsWith(MEMORY) && !isRedisAddress(spool)
  const { locks, because } = hasFiles ? await probeSpool(spool, DEFAULTS.spoolerLock) : NO_FILES
  if (because !== undefined)
    events.emit('config-warning', {
      message: `${spool}: tasks are claimed with lease files, which uWSGI does not see: ${because}`,
    })
  const feedOptions = {
    order: 'arrival',
    rules: { ordered: true, strictNames: false },
    frequencyMs: DEFAULTS.spoolerFrequencyMs,
    watch: DEFAULTS.spoolerWatch,
  } as const
  return {
    spool,
    engineKey: spool,
    pool: poolOptions(spool, locks, running),
    about: { isDaemon: false, controls: null },
    async open() {
      const [upkeep, feed] = await Promise.all([engine.upkeep(), engine.feed(feedOptions, events)])
      upkeep.prepare(locks)
      return { feed, upkeep }
    },
  }
}

/**
 * Creates and checks a spool.
 *
 * @returns its real path, or its name on Redis
 * @throws SpooldError SPOOL_UNUSABLE, ADDRESS_INVALID
 */
export function prepared(directory: string): string {
  if (isRedisAddress(directory)) return nameOfRedis(directory)
  const spool = prepareSpool(directory)
  checkSpool(spool)
  return spool
}

function poolOptions(spool: string, locks: WorkerOptions['locks'], running: Running): PoolOptions {
  const { processes, openPort, openAside, ...own } = running
  const worker: WorkerOptions = {
    ...{ spool, locks, ...own },
    ...{ ordered: true, strictNames: false, frequencyMs: DEFAULTS.spoolerFrequencyMs },
    policy: retryPolicyOf(DEFAULTS),
    delivery: DEFAULTS.spoolerDelivery,
    graceMs: DEFAULTS.spoolerGraceMs,
    memory: { rssBytes: 0, vszBytes: 0, minAgeMs: 0 },
    ...{ maxTasks: 0, signalAsTask: false, startTimeoutMs: DEFAULTS.spoolerStartTimeoutMs },
    ...{ chdir: process.cwd(), application: process.cwd(), title: null, isDetailed: false },
  }
  return {
    worker,
    ...{ processes, scaling: null, startsCheap: false, idleMs: 0 },
    limits: { evilRssBytes: 0, evilVszBytes: 0, lifetimeMs: 0, lifetimeDeltaMs: 0 },
    mercyMs: DEFAULTS.workerReloadMercyMs,
    answer: ({ id }) => ({ type: 'answer', id, values: [] }), // only hosts ask
    openPort,
    ...(openAside && { openAside }),
  }
}

/** Returns the maintenance that a daemon does for a spool by default. */
export function maintained({ spool }: Place): MaintainedSpool[] {
  if (spool.startsWith(MEMORY)) return []
  const { spoolerSweepMs, spoolerIdTtlMs } = DEFAULTS
  const limits = { maxAgeMs: null, maxCount: null }
  return [{ spool, isOwn: true, graceMs: spoolerSweepMs, idTtlMs: spoolerIdTtlMs, limits }]
}
