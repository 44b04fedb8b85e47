import { realpathSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import { findSpool, makeSpoolAsOwner, Opener } from '../../system/opener.js'
import { STATE_DIRECTORY } from './names.js'
import { asideCommand, checkWay, makeCommand, type Owner, remountCommand, unusable } from './permissions.js'

const MODE = 0o750

/**
 * Called by root before it becomes `owner`: creates a missing spool directory and gives it to the owner. (uWSGI leaves
 * such a directory to root, and its spoolers then cannot use it.) Only where nobody else can exchange it; otherwise the owner
 * has to create it.
 */
export function makeSpoolFor(path: string, owner: Owner): void {
  if (process.geteuid?.() !== 0) return
  try {
    new Opener(null).makeDirectory(resolve(path), MODE, owner)
  } catch {} // it exists already, or cannot be made; its later use reports that
}

/**
 * Creates a missing spool directory (0750, one level, as uWSGI does).
 *
 * @returns the real path, which identifies the spool: a directory named twice is one spool
 * @throws SpooldError SPOOL_UNUSABLE, with the failed check and the command that fixes it
 */
export function prepareSpool(path: string): string {
  const absolute = resolve(path)
  makeDirectory(absolute)
  const real = realPath(absolute)
  if (!statSync(real).isDirectory()) throw notDirectory(absolute)
  return real
}

function notDirectory(path: string): SpooldError {
  return unusable(path, 'it is not a directory', `${asideCommand(path)} && ${makeCommand(path, null)}`)
}

function makeDirectory(path: string): void {
  if (isThere(path)) return
  try {
    const isRoot = process.geteuid?.() === 0
    if (!isRoot || !makeSpoolAsOwner(path, STATE_DIRECTORY, MODE)) new Opener(null).makeDirectory(path, MODE)
  } catch (error) {
    if (errnoOf(error) === 'EEXIST' || statSync(path, { throwIfNoEntry: false }) !== undefined) return
    checkWay(path)
    const isOrphan = errnoOf(error) === 'ENOENT'
    const fault = isOrphan ? `its parent ${dirname(path)} does not exist` : messageOf(error)
    const fix = errnoOf(error) === 'EROFS' ? remountCommand(dirname(path)) : makeCommand(path, null)
    throw unusable(path, `it cannot be made (${fault})`, fix, error)
  }
}

function isThere(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined
  } catch (error) {
    checkWay(path)
    throw error
  }
}

function realPath(path: string): string {
  try {
    return process.geteuid?.() === 0 ? findSpool(path, STATE_DIRECTORY).path : realpathSync(path)
  } catch (error) {
    if (error instanceof SpooldError) throw error
    if (errnoOf(error) === 'ENOTDIR' && isFile(path)) throw notDirectory(path)
    checkWay(path)
    const fix = `rm ${shellWord(path)} && ${makeCommand(path, null)}`
    throw unusable(path, `it is a link that leads nowhere (${messageOf(error)})`, fix, error)
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === false
}
