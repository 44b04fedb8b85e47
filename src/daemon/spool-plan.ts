import { resolve } from 'node:path'
import type { Options } from '../config/option-table.js'
import type { ResolvedOptions } from '../config/options.js'
import { sharedAreaBytes } from '../config/shared-areas.js'
import { DirectoryFeed } from '../engines/directory/feed.js'
import type { Emitter } from '../events/emitter.js'
import type { HandlerSpec, WorkerOptions } from '../ipc/messages.js'
import { noteFormat } from '../spool/format.js'
import { probeSpool } from '../spool/probe.js'
import type { SpoolWorkersPlan } from '../supervisor/master.js'
import type { QuestionHandler } from '../supervisor/questions.js'
import type { SignalRouter } from '../supervisor/signal-router.js'
import type { SpareWorker } from '../supervisor/spare-worker.js'
import { type PoolOptions, WorkerPool } from '../supervisor/worker-pool.js'
import type { RetryPolicy } from '../task/retry-policy.js'
import { planChain } from './handler-plan.js'
import { SharedAreas } from './shared-areas.js'

/** Of the one daemon in this process. */
const AREAS = new SharedAreas()

/** What crews need that is no option. */
export interface PlanContext {
  readonly events: Emitter
  readonly signals: SignalRouter
  /** What handlers ask of the daemon. */
  readonly questions: QuestionHandler
  /** Where handlers may put tasks. */
  readonly targets: readonly string[]
  /** Its `fd` is another one after it was opened anew. */
  readonly log: { readonly fd: number }
  readonly spare: SpareWorker | undefined
}

/** Slices the options into what each room needs: one crew a spool directory, however often it was named. */
export async function planCrews(
  spools: readonly string[],
  config: ResolvedOptions,
  context: PlanContext,
): Promise<SpoolWorkersPlan[]> {
  const chain = planChain(config, context.targets)
  AREAS.make(sharedAreaBytes(config.options.sharedarea))
  const times = new Map<string, number>()
  for (const spool of spools) times.set(spool, (times.get(spool) ?? 0) + 1)
  return Promise.all(
    [...times].map(([spool, count]) => planSpoolWorkers(spool, count, chain, config.options, context)),
  )
}

async function planSpoolWorkers(
  spool: string,
  count: number,
  chain: readonly HandlerSpec[],
  options: Options,
  context: PlanContext,
): Promise<SpoolWorkersPlan> {
  const { locks, because } = await probeSpool(spool, options.spoolerLock)
  const retry = {
    policy: retryPolicyOf(options),
    delivery: options.spoolerDelivery,
    graceMs: options.spoolerGraceMs,
  }
  const engineOptions = {
    ...retry,
    handlers: [],
    spool,
    rules: { ordered: options.spoolerOrdered, strictNames: options.spoolerStrictNames },
    frequencyMs: options.spoolerFrequencyMs,
    watch: options.spoolerWatch,
    locks,
  }
  const pool = poolOptions(spool, count, { ...retry, chain, locks }, options, context)
  const engineKey = JSON.stringify(engineOptions)
  return {
    spool,
    engineKey,
    pool,
    async open() {
      noteFormat(spool)
      const feed = new DirectoryFeed(engineOptions, context.events)
      context.events.emit('spool-opened', { spool, locks, ...(because === undefined ? {} : { because }) })
      return { spool, engineKey, feed, pool: new WorkerPool(pool, feed, context.events, context.signals) }
    },
  }
}

export function retryPolicyOf(options: Options): RetryPolicy {
  return {
    maxAttempts: options.spoolerMaxAttempts,
    maxCrashes: options.spoolerMaxCrashes,
    backoff: options.spoolerBackoff,
    delayMs: options.spoolerRetryDelayMs,
    capMs: options.spoolerBackoffCapMs,
  }
}

function poolOptions(
  spool: string,
  count: number,
  shared: Pick<WorkerOptions, 'chain' | 'locks' | 'policy' | 'delivery' | 'graceMs'>,
  options: Options,
  context: PlanContext,
): PoolOptions {
  const worker: WorkerOptions = {
    spool,
    ordered: options.spoolerOrdered,
    strictNames: options.spoolerStrictNames,
    frequencyMs: options.spoolerFrequencyMs,
    ...shared,
    targets: context.targets,
    sync: options.spoolerSync,
    concurrency: options.spoolerConcurrency,
    maxTasks: options.spoolerMaxTasks,
    signalAsTask: options.spoolerSignalAsTask,
    harakiriMs: options.spoolerHarakiriMs,
    startTimeoutMs: options.spoolerStartTimeoutMs,
    chdir: options.spoolerChdir === null ? null : resolve(options.spoolerChdir),
    title: processTitle(options, 'uWSGI spooler'),
    isListenedTo: !options.spoolerQuiet,
    isDetailed: options.logFormat === 'json',
  }
  return {
    worker,
    // 0 is one process, as in uWSGI
    processes: Math.max(1, options.spoolerProcesses) * count,
    cheap: options.spoolerCheap,
    mercyMs: options.workerReloadMercyMs,
    startTimeoutMs: options.spoolerStartTimeoutMs,
    answer: question => context.questions.answer(question),
    spare: context.spare,
    get logFd() {
      return context.log.fd // a worker may be spawned long after the plan was made
    },
    get areas() {
      return AREAS.fds
    },
  }
}

/**
 * The name in `ps`; null leaves it alone. Any procname option asks for names, and what goes before and behind goes around
 * every one of them (core/utils.c, uwsgi_set_processname).
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

/** Names this process, the master. */
export function setProcessTitle(options: Options): void {
  const title = processTitle(options, 'uWSGI master')
  if (title !== null) process.title = title // to set what it is already would lose the arguments in `ps`
}
