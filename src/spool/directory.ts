import { chmodSync, chownSync, mkdirSync, realpathSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { errnoOf, messageOf } from '../base/errors.js'
import { STATE_DIRECTORY } from './file-name.js'
import { asideCommand, checkWay, makeCommand, type Owner, quote, remountCommand, unusable } from './usable.js'

/**
 * Makes the spool directory when it is missing (0750, one level, as uWSGI) and gives it to `owner`: uWSGI leaves a
 * directory that it made as root to root, and its spoolers then cannot use it.
 *
 * @returns the real path: the spool's identity, by which a directory named twice is one spool.
 * @throws SpooldError SPOOL_UNUSABLE that says which check failed and the command that mends it.
 */
export function prepareSpool(path: string, owner: Owner | null): string {
  const absolute = resolve(path)
  if (makeDirectory(absolute, 0o750, owner)) chmodSync(absolute, 0o750)
  const real = realPath(absolute, owner)
  if (!statSync(real).isDirectory()) {
    const mend = `${asideCommand(absolute)} && ${makeCommand(absolute, owner)}`
    throw unusable(absolute, 'it is not a directory', mend)
  }
  if (owner !== null) makeDirectory(join(real, STATE_DIRECTORY), 0o700, owner)
  return real
}

/** @returns whether it was made now */
function makeDirectory(path: string, mode: number, owner: Owner | null): boolean {
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false
    checkWay(path, owner)
    const isOrphan = errnoOf(error) === 'ENOENT'
    const fault = isOrphan ? `its parent ${dirname(path)} does not exist` : messageOf(error)
    const mend = errnoOf(error) === 'EROFS' ? remountCommand(dirname(path)) : makeCommand(path, owner)
    throw unusable(path, `it cannot be made (${fault})`, mend, error)
  }
  if (owner !== null) chownSync(path, owner.uid, owner.gid)
  return true
}

function realPath(path: string, owner: Owner | null): string {
  try {
    return realpathSync(path)
  } catch (error) {
    checkWay(path, owner)
    const mend = `rm ${quote(path)} && ${makeCommand(path, owner)}`
    throw unusable(path, `it is a link that leads nowhere (${messageOf(error)})`, mend, error)
  }
}
