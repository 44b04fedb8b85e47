import { SpooldError } from '../../base/errors.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'

/** The commands that work with a spool on Redis. */
const WITH_REDIS: ReadonlySet<string> = new Set([
  ...['check', 'config', 'enqueue', 'unit'],
  ...['ls', 'show', 'shape', 'wait', 'rm', 'cancel', 'requeue', 'kick', 'hold', 'release', 'move'],
  ...['purge', 'pause', 'resume', 'status', 'top', 'quiet', 'scale', 'logs', 'schedules', 'scaling'],
])

/**
 * Refuses an address on Redis where a directory is meant, before it is taken for a path.
 *
 * @throws SpooldError NOT_ON_REDIS
 */
export function refuseRedis(command: string, values: readonly unknown[]): void {
  if (!WITH_REDIS.has(command) && values.flat().some(isOnRedis)) throw notOnRedis(command)
}

export function isOnRedis(value: unknown): boolean {
  return typeof value === 'string' && isRedisAddress(value)
}

export function notOnRedis(command: string): SpooldError {
  const why = `spoold ${command} does not work with a spool on Redis yet: name spools in directories`
  return new SpooldError('NOT_ON_REDIS', WHY[command] ?? why)
}

const WHY: Readonly<Record<string, string>> = {
  doctor: 'spoold doctor takes ini files, and examines each Redis that they name: spoold doctor app.ini',
  fsck: 'spoold fsck repairs the files of a directory, and there are none of a spool on Redis (spoold doctor app.ini examines that): name spools in directories',
}
