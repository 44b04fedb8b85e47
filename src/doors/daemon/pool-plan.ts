import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import type { Options, SpoolOptions } from '../../formats/config/option-table.js'
import type { CheckOptions } from '../../runtime/supervisor/pool-checks.js'
import type { PoolScaling, SizeOptions, WorkerLimits } from '../../runtime/supervisor/pool-options.js'
import type { ScalingOptions } from '../../runtime/supervisor/scaling/algorithm.js'
import { loadAlgorithm } from '../../runtime/supervisor/scaling/algorithms.js'

/** How many processes a spool has. @throws SpooldError ALGORITHM_UNLOADABLE */
export async function sizeOptions(options: SpoolOptions, processes: number): Promise<SizeOptions> {
  const { spoolerCheap, spoolerCheapStart, spoolerIdleMs } = options
  const adapts = options.spoolerCheaper > 0
  return {
    processes,
    scaling: await scalingOf(options, processes),
    startsCheap: spoolerCheapStart || (adapts && spoolerCheap),
    idleMs: adapts && spoolerCheap ? SOON_MS : spoolerIdleMs,
  }
}

/** How long `spooler-cheap` leaves processes idle, because the next task may arrive soon. */
const SOON_MS = 1000

async function scalingOf(options: SpoolOptions, processes: number): Promise<PoolScaling | null> {
  const { spoolerCheaper, spoolerCheap } = options
  if (spoolerCheaper === 0 && !spoolerCheap) return null
  const scaling = scalingOptions(options, processes)
  return {
    algorithm: await algorithmOf(spoolerCheaper === 0 ? 'cheap' : options.spoolerCheaperAlgo),
    options: scaling,
    initial: spoolerCheaper === 0 ? 1 : initialWorkers(options.spoolerCheaperInitial, scaling),
  }
}

/** The number of workers that an adaptive pool starts with: `cheaper-initial`, within the pool's limits. */
export function initialWorkers(wanted: number | null, { minimum, maximum }: ScalingOptions): number {
  return Math.max(minimum, Math.min(maximum, wanted ?? 0))
}

/** An unknown algorithm is replaced by the default, as in uWSGI. */
async function algorithmOf(name: string) {
  try {
    return await loadAlgorithm(name.includes('/') ? resolve(name) : name)
  } catch (error) {
    if (name.includes('/')) throw error
    return await loadAlgorithm('spare')
  }
}

/** @param maximum the largest number of processes */
export function scalingOptions(options: SpoolOptions, maximum: number): ScalingOptions {
  return {
    minimum: options.spoolerCheaper,
    maximum,
    step: options.spoolerCheaperStep === null ? undefined : Math.max(1, options.spoolerCheaperStep),
    overload: Math.max(1, options.spoolerCheaperOverload),
    idle: options.spoolerCheaperIdle,
    waitMicros: options.spoolerCheaperWaitMs * 1000,
    processors: availableParallelism(),
    busyness: {
      min: options.spoolerCheaperBusynessMin,
      max: options.spoolerCheaperBusynessMax,
      multiplier: options.spoolerCheaperBusynessMultiplier,
      penalty: options.spoolerCheaperBusynessPenalty,
      isVerbose: options.spoolerCheaperBusynessVerbose,
      backlogAlert: options.spoolerCheaperBusynessBacklogAlert,
      backlogMultiplier: options.spoolerCheaperBusynessBacklogMultiplier,
      backlogStep: options.spoolerCheaperBusynessBacklogStep,
      backlogNonzero: options.spoolerCheaperBusynessBacklogNonzero,
    },
  }
}

/** When the master replaces a worker. */
export function workerLimits(options: SpoolOptions): WorkerLimits {
  return {
    evilRssBytes: options.spoolerEvilReloadOnRssBytes,
    evilVszBytes: options.spoolerEvilReloadOnAsBytes,
    lifetimeMs: options.spoolerMaxWorkerLifetimeMs,
    lifetimeDeltaMs: options.spoolerMaxWorkerLifetimeDeltaMs,
  }
}

/** The checks of the whole daemon. */
export function checkOptions(options: Options): CheckOptions {
  return {
    everyMs: options.spoolerCheckIntervalMs || 1000,
    softRssBytes: options.spoolerCheaperRssLimitSoft,
    hardRssBytes: options.spoolerCheaperRssLimitHard,
  }
}
