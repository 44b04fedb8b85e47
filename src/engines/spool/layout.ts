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
import { errnoOf, messageOf } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import {
  ancestors,
  asideCommand,
  checkWay,
  makeCommand,
  type Owner,
  remountCommand,
  unusable,
} from './permissions.js'

const MODE = 0o750

/**
 * Called by root before it becomes `owner`: creates a missing spool directory and gives it to the owner. (uWSGI leaves
 * such a directory to root, and its spoolers then cannot use it.) Only if root alone can rename the directories above it;
 * otherwise the owner has to create it.
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
    // it exists already, or cannot be created; its later use reports that
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** Root's directory, in which other users may at most create files, and not rename or remove root's. */
function isRoots(directory: string): boolean {
  const { uid, mode } = lstatSync(directory)
  return uid === 0 && ((mode & 0o022) === 0 || (mode & 0o1000) !== 0)
}

/**
 * Creates a missing spool directory (0750, one level, as uWSGI does).
 *
 * @returns the real path, which identifies the spool: a directory named twice is one spool
 * @throws SpooldError SPOOL_UNUSABLE, with the failed check and the command that fixes it
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

/** @returns whether it was created by this call */
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
    const fix = `rm ${shellWord(path)} && ${makeCommand(path, null)}`
    throw unusable(path, `it is a link that leads nowhere (${messageOf(error)})`, fix, error)
  }
}
