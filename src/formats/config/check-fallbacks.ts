import { resolve } from 'node:path'
import type { Problems } from '../ini/setting.js'
import { fallbackOf, isRedisAddress } from '../protocol/redis-address.js'
import { originOf } from './options.js'
import { addressOf, labelOf, type SpoolConfig } from './spools.js'

/**
 * Checks that each fallback directory is forwarded to one spool only, and that nobody runs its tasks.
 *
 * @param checkDirectory checks that the path is a directory, or that one can be made there
 */
export function checkFallbacks(
  spools: readonly SpoolConfig[],
  problems: Problems,
  checkDirectory: (name: string, path: string, where: ReturnType<typeof originOf>) => void,
): void {
  /** The spool that uses each directory. */
  const users = new Map(
    spools.flatMap(({ directory }) => (isRedisAddress(directory) ? [] : [[resolve(directory), directory]])),
  )
  for (const spool of spools) {
    const where = originOf(spool, 'spooler-fallback')
    const name = labelOf(spool, 'spooler-fallback')
    const directory = fallbackOf(addressOf(spool))
    if (directory === undefined) {
      if (spool.ownKeys.has('spooler-fallback'))
        problems.warning(where, `${name} has no effect: ${spool.directory} is no spool on Redis`)
      continue
    }
    const user = users.get(directory) ?? spool.directory
    if (user !== spool.directory) {
      const why = isRedisAddress(user) ? 'it is forwarded to another spool' : 'it is a spool itself'
      problems.error(where, `${name}: expected a directory of its own, got ${directory}: ${why}`)
    }
    users.set(directory, spool.directory)
    checkDirectory(name, directory, where)
  }
}
