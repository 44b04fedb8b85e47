import { statfs } from 'node:fs/promises'
import { resolve } from 'node:path'
import { withDeadline } from '../../base/clock.js'
import { quietly, SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { controlHomeOf } from '../../engines/control/home.js'
import { type FeedOptions, openEngine } from '../../engines/open-engine.js'
import { prepareSpool } from '../../engines/spool/permissions.js'
import { probeSpool } from '../../engines/spool/probe.js'
import type { TaskOrder } from '../../engines/spool/task-order.js'
import type { SpoolTarget } from '../../engines/targets.js'
import type { Options, SpoolOptions } from '../../formats/config/option-table.js'
import type { ResolvedOptions } from '../../formats/config/options.js'
import { queuesOf } from '../../formats/config/queues.js'
import { retryPolicyOf } from '../../formats/config/retry-policy.js'
import { sharedAreaBytes } from '../../formats/config/shared-areas.js'
import { addressOf, type SpoolConfig } from '../../formats/config/spools.js'
import { keysOf } from '../../formats/protocol/hide.js'
import { fallbackOf, isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import type { HandlerSpec, WorkerOptions } from '../../runtime/ipc/messages.js'
import { ForkedPort, openAside, type SpareWorker } from '../../runtime/supervisor/forked-port.js'
import type { MaintainedSpool } from '../../runtime/supervisor/maintenance.js'
import type { SpoolWorkersPlan } from '../../runtime/supervisor/master.js'
import type { PoolOptions } from '../../runtime/supervisor/pool-options.js'
import type { QuestionHandler } from '../../runtime/supervisor/questions.js'
import type { CheckedConfig } from '../check/check.js'
import { planChain, planHostSettings, SharedAreas } from './handler-plan.js'
import { sizeOptions, workerLimits } from './pool-plan.js'

/** How long the disk of a spool may take to answer before a reload opens the spool. */
const DISK_MS = 5000

/** A usable spool: its directory exists, or it is on Redis. */
export interface PreparedSpool extends SpoolConfig {
  /** The spool's real path, or its name on Redis. */
  readonly spool: string
  /** The name of the spool to which this spool's tasks are passed on; no handler runs them here. */
  readonly forwardsTo?: string
}

/** The directories of spools, including those that stand in for a spool on Redis while Redis is away. */
export function localDirectories({ spools }: CheckedConfig, resolve: (path: string) => string): string[] {
  return spools.flatMap(each => {
    if (isRedisAddress(each.directory)) return fallbackOf(addressOf(each, resolve)) ?? []
    return resolve(each.directory)
  })
}

/** The disks that have not answered yet, each of which holds a thread: there are few, and a reload may be asked for again and again. */
const asked = new Map<string, Promise<void>>()

/**
 * Asks the disks of spools, in threads, because a reload opens the spools in this one, and would stop all of them where one hangs.
 *
 * @throws SpooldError SPOOL_UNUSABLE if one does not answer
 */
export async function askDisks(directories: readonly string[]): Promise<void> {
  const ask = (directory: string) => {
    const answer =
      asked.get(directory) ??
      statfs(directory)
        .then(
          () => {},
          () => {}, // whoever opens it is told
        )
        .finally(() => asked.delete(directory))
    asked.set(directory, answer)
    return withDeadline(answer, DISK_MS, () => {
      throw new SpooldError(
        'SPOOL_UNUSABLE',
        `the disk of ${directory} has not answered for ${DISK_MS / 1000} s`,
      )
    })
  }
  await Promise.all(directories.map(ask))
}

/** Creates missing directories. @param resolve resolves a path of the configuration */
export function prepareSpools({ spools }: CheckedConfig, resolve: (path: string) => string): PreparedSpool[] {
  const prepared = spools.map((each): PreparedSpool => {
    if (isRedisAddress(each.directory)) {
      const directory = addressOf(each, resolve)
      return { ...each, directory, spool: nameOfRedis(directory) }
    }
    const directory = resolve(each.directory)
    return { ...each, directory, spool: prepareSpool(directory) }
  })
  return [...prepared, ...forwardedSpools(prepared)]
}

/**
 * The directories whose tasks are forwarded to spools on Redis, as spools that this daemon runs. Its workers pass each task
 * on, whoever has stored it. Everything else is as for any directory: claims, dead letters, pauses, statistics.
 */
function forwardedSpools(spools: readonly PreparedSpool[]): PreparedSpool[] {
  const places = new Map(spools.flatMap(each => [[fallbackOf(each.directory), each] as const]))
  return [...places].flatMap(([directory, each]) =>
    directory === undefined ? [] : [forwardedSpool(directory, each)],
  )
}

/** How many tasks of a directory are forwarded at a time. They are stored together, in order. */
const TOGETHER = 16
/** A process that has forwarded nothing for this long ends, until there is something to forward. */
const IDLE_MS = 60_000
/** The limit of attempts for tasks that Redis keeps refusing for a reason that may never end. */
const MOST_ATTEMPTS = 10

function forwardedSpool(directory: string, { spool, options, ...config }: PreparedSpool): PreparedSpool {
  return {
    ...config,
    ...{ directory, spool: prepareSpool(directory), forwardsTo: spool, isExternal: false, handlers: [] },
    options: {
      ...options,
      ...{ spoolerProcesses: 1, spoolerConcurrency: TOGETHER, spoolerMaxTasks: 0, spoolerHarakiriMs: 0 },
      ...{ spoolerCheaper: 0, spoolerCheap: false, spoolerCheapStart: true, spoolerIdleMs: IDLE_MS },
      ...{ spoolerOrdered: 'age', spoolerStrictNames: true, spoolerChdir: null },
      ...{ spoolerMaxAttempts: MOST_ATTEMPTS, spoolerBackoff: 'exponential', spoolerRetryDelayMs: null },
    },
  }
}

/** Shared by all plans, because this process has one daemon. */
const AREAS = new SharedAreas()

/** Spools on Redis need no lock option: jobs have locks of their own. */
const ON_REDIS = { locks: 'ofd', because: undefined } as const

/** What a plan needs besides the options. */
interface PlanContext {
  readonly events: Emitter
  /** Answers questions of handlers to the daemon. */
  readonly questions: Pick<QuestionHandler, 'answer'>
  /** The spools in which handlers may store tasks. */
  readonly targets: readonly SpoolTarget[]
  /** The spools by the names that handlers use, each once: real paths, as in uWSGI (core/spooler.c, uwsgi_new_spooler). */
  readonly known: readonly string[]
  /** `fd` changes when the log is reopened. */
  readonly log: { readonly fd: number }
  readonly spare: SpareWorker | undefined
}

/** Returns a function that is true for a path, of a spool or of a file in it, that belongs to a spool with `spooler-quiet`. */
export function quietAmong(spools: readonly PreparedSpool[]): (path: string) => boolean {
  const quiet = spools.filter(({ options }) => options.spoolerQuiet).map(({ spool }) => `${spool}/`)
  return path => quiet.some(each => `${path}/`.startsWith(each))
}

/** The spools in which tasks may be stored. */
export function targetsOf(spools: readonly PreparedSpool[]): SpoolTarget[] {
  return spools.map(({ directory, options }) => ({ directory, sync: options.spoolerSync }))
}

/** Selects from the options what each room needs: one plan per spool directory, even if it is listed several times. */
export async function planSpools(
  spools: readonly PreparedSpool[],
  config: ResolvedOptions,
  context: PlanContext,
): Promise<SpoolWorkersPlan[]> {
  AREAS.make(sharedAreaBytes(config.options.sharedarea))
  const hostSettings = planHostSettings(config, context.known)
  /** A directory that is listed several times gets the processes of all its entries. */
  const processes = new Map<string, number>()
  // 0 is one process, as in uWSGI
  for (const { spool, options } of spools)
    processes.set(spool, (processes.get(spool) ?? 0) + Math.max(1, options.spoolerProcesses))
  const first = spools.filter(({ spool }, i) => spools.findIndex(each => each.spool === spool) === i)
  return Promise.all(
    first.map(each => {
      const { forwardsTo } = each
      const chain: readonly HandlerSpec[] =
        forwardsTo === undefined ? planChain(each, config) : [{ kind: 'forward', to: forwardsTo }]
      const handlers = chain.some(({ kind }) => kind === 'host') ? { chain, hostSettings } : { chain }
      return planSpoolWorkers(each, processes.get(each.spool) ?? 1, handlers, config.options, context)
    }),
  )
}

async function planSpoolWorkers(
  each: PreparedSpool,
  processes: number,
  handlers: Pick<WorkerOptions, 'chain' | 'hostSettings'>,
  daemon: Options,
  context: PlanContext,
): Promise<SpoolWorkersPlan> {
  const { spool, options } = each
  const isOnRedis = isRedisAddress(spool)
  const { locks, because } = isOnRedis ? ON_REDIS : await probeSpool(spool, options.spoolerLock)
  const rules = { ordered: options.spoolerOrdered !== false, strictNames: options.spoolerStrictNames }
  const feedOptions: FeedOptions = {
    order: taskOrderOf(options),
    rules,
    frequencyMs: options.spoolerFrequencyMs,
    watch: options.spoolerWatch,
  }
  const code = JSON.stringify(each.handlers)
  const chdir = chdirOf(options, isOnRedis)
  const pool: PoolOptions = {
    worker: { spool, ...handlers, chdir, locks, ...rules, ...workerOptions(options, daemon, context) },
    ...(await sizeOptions(options, processes)),
    limits: workerLimits(options),
    mercyMs: options.workerReloadMercyMs,
    answer: question => context.questions.answer(question, code),
    // a worker may be spawned long after the plan was made, and the log may have been reopened by then
    openPort: () => context.spare?.take() ?? new ForkedPort({ logFd: context.log.fd, areas: AREAS.fds }),
    openAside: () => openAside(context.log.fd),
  }
  return {
    spool,
    engineKey: JSON.stringify({ spool, locks, ...feedOptions }),
    pool,
    about: { isDaemon: true, controls: controlHomeOf(spool) },
    async open() {
      const engine = openEngine(spool)
      const [upkeep, feed] = await Promise.all([engine.upkeep(), engine.feed(feedOptions, context.events)])
      upkeep.prepare(locks)
      context.events.emit('spool-opened', {
        ...{ spool, locks: isOnRedis ? 'redis' : locks },
        ...(because === undefined ? {} : { because }),
      })
      return { feed, upkeep }
    },
  }
}

/** Tasks on Redis have no directory, so each starts in the daemon's, wherever the last task has gone. */
function chdirOf({ spoolerChdir }: SpoolOptions, isOnRedis: boolean): string | null {
  if (spoolerChdir !== null) return resolve(spoolerChdir)
  return isOnRedis ? quietly(() => process.cwd(), null) : null
}

function taskOrderOf({ spoolerOrdered }: SpoolOptions): TaskOrder {
  if (spoolerOrdered === 'age') return 'age'
  return spoolerOrdered ? 'name' : 'arrival'
}

function workerOptions(
  options: SpoolOptions,
  daemon: Options,
  { targets }: PlanContext,
): Omit<WorkerOptions, 'spool' | 'chain' | 'hostSettings' | 'chdir' | 'locks' | 'ordered' | 'strictNames'> {
  return {
    policy: retryPolicyOf(options),
    delivery: options.spoolerDelivery,
    graceMs: options.spoolerGraceMs,
    frequencyMs: options.spoolerFrequencyMs,
    targets,
    queues: queuesOf(daemon.spoolerQueue).map(([name, directory]) => [
      name,
      isRedisAddress(directory) ? directory : resolve(directory),
    ]),
    concurrency: options.spoolerConcurrency,
    maxTasks: options.spoolerMaxTasks,
    memory: {
      rssBytes: options.spoolerReloadOnRssBytes,
      vszBytes: options.spoolerReloadOnAsBytes,
      minAgeMs: options.spoolerMinWorkerLifetimeMs,
    },
    signalAsTask: options.spoolerSignalAsTask,
    harakiriMs: options.spoolerHarakiriMs,
    startTimeoutMs: options.spoolerStartTimeoutMs,
    title: processTitle(daemon, 'uWSGI spooler'),
    isListenedTo: !options.spoolerQuiet,
    hide: keysOf(daemon.spoolerHide),
    isDetailed: daemon.logFormat === 'json',
  }
}

/** How long a stop may take. */
export function longestMercyMs({ spools, anySpool }: ResolvedOptions): number {
  return Math.max(...[anySpool, ...spools].map(({ options }) => options.workerReloadMercyMs))
}

/**
 * The process name for `ps`; null leaves it alone. Any procname option turns naming on, and prefix and suffix apply
 * to every name (core/utils.c, uwsgi_set_processname).
 */
function processTitle(options: Options, role: 'uWSGI master' | 'uWSGI spooler'): string | null {
  const { procname, procnameMaster, procnamePrefix, procnamePrefixSpaced, procnameAppend, autoProcname } =
    options
  const asked = [procname, procnameMaster, procnamePrefix, procnamePrefixSpaced, procnameAppend]
  if (!autoProcname && asked.every(text => text === null)) return null
  const name = (role === 'uWSGI master' ? procnameMaster : null) ?? procname ?? role
  const prefix = procnamePrefixSpaced === null ? (procnamePrefix ?? '') : `${procnamePrefixSpaced} `
  return `${prefix}${name}${procnameAppend ?? ''}`
}

/** Sets the name of this process, the master. */
export function setProcessTitle(options: Options): void {
  const title = processTitle(options, 'uWSGI master')
  if (title !== null) process.title = title // even assigning the current title would drop the arguments from `ps`
}

/** The upkeep of a spool: what is done besides running its tasks. */
export function maintained({ spool, isExternal, options }: PreparedSpool): MaintainedSpool {
  const { spoolerSweepMs, spoolerIdTtlMs, spoolerDeadMaxAgeMs, spoolerDeadMaxCount } = options
  return {
    spool,
    isOwn: !isExternal,
    graceMs: spoolerSweepMs,
    idTtlMs: spoolerIdTtlMs,
    limits: { maxAgeMs: spoolerDeadMaxAgeMs || null, maxCount: spoolerDeadMaxCount || null },
  }
}
