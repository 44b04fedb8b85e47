import { SpooldError } from '../base/errors.js'
import { isRedisAddress } from '../protocol/redis-address.js'

/** The commands that work with a spool on Redis. */
const WITH_REDIS: ReadonlySet<string> = new Set([
  ...['check', 'config', 'enqueue', 'unit'],
  ...['ls', 'show', 'shape', 'wait', 'rm', 'cancel', 'requeue', 'kick', 'hold', 'release'],
  ...['purge', 'pause', 'resume'],
])

/**
 * Refuses an address on Redis where a directory is meant, before it is taken for a path.
 *
 * @throws SpooldError NOT_ON_REDIS
 */
export function refuseRedis(command: string, values: readonly unknown[]): void {
  if (!WITH_REDIS.has(command) && values.flat().some(isOnRedis)) throw notOnRedis(`spoold ${command}`)
}

/** @param file names these spools @throws SpooldError NOT_ON_REDIS */
export function refuseRedisIn(file: string, spools: readonly string[]): void {
  if (spools.some(isOnRedis)) throw notOnRedis(`this command, for the spools of ${file},`)
}

function isOnRedis(value: unknown): boolean {
  return typeof value === 'string' && isRedisAddress(value)
}

function notOnRedis(what: string): SpooldError {
  return new SpooldError(
    'NOT_ON_REDIS',
    `${what} does not work with a spool on Redis yet: name spools in directories`,
  )
}
