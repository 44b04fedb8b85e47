import { prepareSpool } from '../../engines/spool/layout.js'
import { addressOf, type SpoolConfig } from '../../formats/config/spools.js'
import { fallbackOf, isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import type { CheckedConfig } from '../check/check.js'

/** So many tasks of a directory are on their way at a time. They are stored in order, together. */
const TOGETHER = 16
/** A process that has forwarded nothing for so long ends, until there is something. */
const IDLE_MS = 60_000
/** What Redis refuses again and again, for no reason that is known to end, does not stay for ever. */
const MOST_ATTEMPTS = 10

/** A spool that is usable: its directory exists, or it is on Redis. */
export interface PreparedSpool extends SpoolConfig {
  /** Its real path, or its name on Redis. */
  readonly spool: string
  /** Its tasks are passed on to the spool of this name, and run by none of its handlers. */
  readonly forwardsTo?: string
}

/** Of the spools that are directories, and of those that have one for the time when Redis is away. */
export function localDirectories({ spools }: CheckedConfig, resolve: (path: string) => string): string[] {
  return spools.flatMap(each => {
    if (isRedisAddress(each.directory)) return fallbackOf(addressOf(each, resolve)) ?? []
    return resolve(each.directory)
  })
}

/** Creates the directories that are missing. @param resolve resolves a path of the configuration */
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
 * The directories whose tasks are forwarded to spools on Redis, as spools that this daemon runs: its workers pass each task
 * on, whoever has stored it, and all else is as for any directory: claims, dead letters, pauses, statistics.
 */
function forwardedSpools(spools: readonly PreparedSpool[]): PreparedSpool[] {
  const places = new Map(spools.flatMap(each => [[fallbackOf(each.directory), each] as const]))
  return [...places].flatMap(([directory, each]) =>
    directory === undefined ? [] : [forwardedSpool(directory, each)],
  )
}

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
