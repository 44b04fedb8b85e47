import { resolve } from 'node:path'
import { SpooldError } from '../../base/errors.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import type { Enqueuer } from '../enqueuer.js'
import { SpoolTargets } from '../targets.js'
import { SocketDestination } from './socket-client.js'

/** Where tasks go. */
export interface Destination {
  /**
   * The spool directory, created if it is missing. Of several, the first is the default, and a `spooler` key in a dictionary may
   * name the others. Without this option, that key is the directory. A spool on Redis is its address: `redis://host:6379/0/name`;
   * with `?fallback=/var/spool/name`, its tasks go to that directory while Redis is away.
   */
  readonly spooler?: string | readonly string[]
  /**
   * Instead of a spool directory: the address of a daemon (`host:3031`, `/path.sock`, `@abstract`). The daemon decides about
   * syncs; it supports neither ids nor `allOrNothing`, and returns no path.
   */
  readonly socket?: string
  /**
   * True (the default): data and directory are on disk before a task counts as stored; concurrent calls share the syncs. False is
   * uWSGI's behaviour: the task survives the death of every process, but not power loss.
   */
  readonly sync?: boolean
}

/** The opened spools, by `spooler` as it was given. */
const synced = new Map<string, SpoolTargets>()
const unsynced = new Map<string, SpoolTargets>()
const sockets = new Map<string, SocketDestination>()

/**
 * Returns the enqueuer of a destination: of its socket if it has one, else of its spool.
 *
 * @param named the dictionary's own `spooler`
 * @throws SpooldError SPOOL_UNUSABLE, SPOOLER_UNKNOWN, ADDRESS_INVALID; REQUEST_INVALID if there is no spool at all
 */
export function openTarget({ spooler, socket, sync = true }: Destination, named?: Buffer): Enqueuer {
  if (socket !== undefined) return openSocket(socket)
  return openTargets(spooler ?? named?.toString() ?? [], sync).get(named)
}

/** Returns the shared connection to a daemon. The daemon looks up the spool that a task names. */
function openSocket(address: string): SocketDestination {
  const destination = sockets.get(address) ?? new SocketDestination(address)
  sockets.set(address, destination)
  return destination
}

/** Returns the spools of an option `spooler`. They are cached by the given value, because this is called for every task. */
function openTargets(spooler: string | readonly string[], sync: boolean): SpoolTargets {
  const opened = sync ? synced : unsynced
  const given = typeof spooler === 'string' ? spooler : spooler.join('\0')
  const key = given.startsWith('/') ? given : `${process.cwd()}\0${given}`
  const known = opened.get(key)
  if (known !== undefined) return known
  const directories = typeof spooler === 'string' ? [spooler] : spooler
  if (directories.length === 0 || directories.includes(''))
    throw new SpooldError(
      'REQUEST_INVALID',
      'there is no spool; name its directory with the option spooler',
      {
        details: { key: 'spooler' },
      },
    )
  const targets = new SpoolTargets(
    directories.map(path => ({ directory: isRedisAddress(path) ? path : resolve(path), sync })),
  )
  opened.set(key, targets)
  return targets
}

/**
 * Forgets the opened spools after a failure, so that the next task looks its directory up again: it may have been moved and
 * created again.
 */
export function forgetTargets(): void {
  synced.clear()
  unsynced.clear()
}
