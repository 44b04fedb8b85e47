import { isAbsolute, resolve } from 'node:path'
import { SpooldError } from '../base/errors.js'
import type { DirectoryEnqueuer } from '../engines/directory-enqueuer.js'
import { SpoolTargets } from '../engines/spool-targets.js'

/** Where tasks go. */
export interface Destination {
  /**
   * The spool directory, made when it is missing. Of several, the first is where a task goes; the others are those that a
   * `spooler` key in a dictionary may name. Without this option that key is the directory.
   */
  readonly spooler?: string | readonly string[]
  /**
   * Data and directory are on disk before a task counts as stored (the default); calls that run at the same time share
   * the syncs. False is uWSGI's behaviour: safe from the death of every process, but not from power loss.
   */
  readonly sync?: boolean
}

const opened = new Map<string, SpoolTargets>()

/**
 * The one place where it is chosen how a task travels.
 *
 * @param named the dictionary's own `spooler`
 * @throws SpooldError SPOOL_UNUSABLE, SPOOLER_UNKNOWN; REQUEST_INVALID when there is no spool at all
 */
export function openTransport(destination: Destination, named?: Buffer): DirectoryEnqueuer {
  const { spooler = named?.toString() ?? '', sync = true } = destination
  const directories = typeof spooler === 'string' ? [spooler] : spooler
  if (directories.length === 0 || directories.includes(''))
    throw new SpooldError(
      'REQUEST_INVALID',
      'there is no spool; name its directory with the option spooler',
      { details: { key: 'spooler' } },
    )
  return openTargets(directories, sync).get(named)
}

function openTargets(directories: readonly string[], sync: boolean): SpoolTargets {
  const paths = directories.map(path => (isAbsolute(path) ? path : resolve(path)))
  const key = `${sync}\0${paths.join('\0')}`
  const targets = opened.get(key) ?? new SpoolTargets(paths, sync)
  opened.set(key, targets)
  return targets
}

/** After a failure the directory is looked for again: it may have been moved away and made anew. */
export function forgetTransports(): void {
  opened.clear()
}
