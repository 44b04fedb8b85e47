import { resolve } from 'node:path'
import { SpooldError } from '../base/errors.js'
import { SpoolTargets } from '../engines/directory/targets.js'
import type { Enqueuer } from '../engines/enqueuer.js'
import { SocketDestination } from './socket-target.js'

/** Where tasks go. */
export interface Destination {
  /**
   * The spool directory, made when it is missing. Of several, the first is where a task goes; the others are those that a
   * `spooler` key in a dictionary may name. Without this option that key is the directory.
   */
  readonly spooler?: string | readonly string[]
  /**
   * Instead of a spool directory: the address of a daemon (`host:3031`, `/path.sock`, `@abstract`). The daemon decides
   * about syncs; it takes no ids and no batches of all or nothing, and tells no path.
   */
  readonly socket?: string
  /**
   * Data and directory are on disk before a task counts as stored (the default); calls that run at the same time share
   * the syncs. False is uWSGI's behaviour: safe from the death of every process, but not from power loss.
   */
  readonly sync?: boolean
}

/** By what was given as `spooler`. */
const synced = new Map<string, SpoolTargets>()
const unsynced = new Map<string, SpoolTargets>()
const sockets = new Map<string, SocketDestination>()

/**
 * The one place where it is chosen how a task travels.
 *
 * @param named the dictionary's own `spooler`
 * @throws SpooldError SPOOL_UNUSABLE, SPOOLER_UNKNOWN; REQUEST_INVALID when there is no spool at all
 */
export function openTarget({ spooler, socket, sync = true }: Destination, named?: Buffer): Enqueuer {
  if (socket !== undefined) return openSocket(socket)
  return openTargets(spooler ?? named?.toString() ?? [], sync).get(named)
}

/** The daemon at the other end looks which spool a task names. */
function openSocket(address: string): SocketDestination {
  const destination = sockets.get(address) ?? new SocketDestination(address)
  sockets.set(address, destination)
  return destination
}

/** The spools behind an option `spooler`; looked up by what was given, because this is done for every task. */
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
  const targets = new SpoolTargets(directories.map(path => ({ directory: resolve(path), sync })))
  opened.set(key, targets)
  return targets
}

/** After a failure the directory is looked for again: it may have been moved away and made anew. */
export function forgetTargets(): void {
  synced.clear()
  unsynced.clear()
}
