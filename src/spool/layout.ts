import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { errnoOf, messageOf } from '../base/errors.js'
import {
  ancestors,
  asideCommand,
  checkWay,
  makeCommand,
  type Owner,
  quote,
  remountCommand,
  unusable,
} from './permissions.js'

const MODE = 0o750

/**
 * As root, which is about to become `owner`: makes a missing spool directory and gives it away, because uWSGI leaves one
 * that it made as root to root, and its spoolers then cannot use it. Only where nobody but root can change a name on the
 * way to it; elsewhere the owner may make it.
 */
export function makeSpoolFor(path: string, { uid, gid }: Owner): void {
  const absolute = resolve(path)
  let fd: number | undefined
  try {
    const parent = realpathSync(dirname(absolute))
    const real = join(parent, basename(absolute))
    if (process.geteuid?.() !== 0 || !ancestors(real).every(isRoots)) return
    mkdirSync(real, { mode: 0o700 })
    fd = openSync(real, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    fchownSync(fd, uid, gid)
    fchmodSync(fd, MODE)
  } catch {
    // it is there, or cannot be made: who needs it says so
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** Others may make names in it at most, and not change ours. */
function isRoots(directory: string): boolean {
  const { uid, mode } = lstatSync(directory)
  return uid === 0 && ((mode & 0o022) === 0 || (mode & 0o1000) !== 0)
}

/**
 * Makes the spool directory when it is missing (0750, one level, as uWSGI).
 *
 * @returns the real path: the spool's identity, by which a directory named twice is one spool.
 * @throws SpooldError SPOOL_UNUSABLE that says which check failed and the command that fixes it.
 */
export function prepareSpool(path: string): string {
  const absolute = resolve(path)
  if (makeDirectory(absolute)) chmodSync(absolute, MODE)
  const real = realPath(absolute)
  if (!statSync(real).isDirectory()) {
    const fix = `${asideCommand(absolute)} && ${makeCommand(absolute, null)}`
    throw unusable(absolute, 'it is not a directory', fix)
  }
  return real
}

/** @returns whether it was made now */
function makeDirectory(path: string): boolean {
  try {
    mkdirSync(path, { mode: MODE })
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false
    checkWay(path)
    const isOrphan = errnoOf(error) === 'ENOENT'
    const fault = isOrphan ? `its parent ${dirname(path)} does not exist` : messageOf(error)
    const fix = errnoOf(error) === 'EROFS' ? remountCommand(dirname(path)) : makeCommand(path, null)
    throw unusable(path, `it cannot be made (${fault})`, fix, error)
  }
  return true
}

function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    checkWay(path)
    const fix = `rm ${quote(path)} && ${makeCommand(path, null)}`
    throw unusable(path, `it is a link that leads nowhere (${messageOf(error)})`, fix, error)
  }
}
