import { accessSync, constants, lstatSync, readdirSync, realpathSync, type Stats, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { shellWord } from '../../base/printable.js'
import { findSpool, makeSpoolAsOwner, Opener } from '../../system/opener.js'
import { STATE_DIRECTORY } from './names.js'

/** The user and group that are going to use a directory, if not those of this process. */
export interface Owner {
  readonly uid: number
  readonly gid: number
}

const MODE = 0o750

/**
 * Called by root before it becomes `owner`: creates a missing spool directory and gives it to the owner. (uWSGI leaves such a
 * directory to root, and its spoolers then cannot use it.) Root does so only where nobody else can exchange the directory;
 * otherwise the owner has to create it.
 */
export function makeSpoolFor(path: string, owner: Owner): void {
  if (process.geteuid?.() !== 0) return
  try {
    new Opener(null).makeDirectory(resolve(path), MODE, owner)
  } catch {} // the directory exists already, or cannot be made; its later use reports that
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
  const real = sameDirectory(absolute, realPath(absolute))
  if (!statSync(real).isDirectory()) throw notDirectory(absolute)
  return real
}

function makeDirectory(path: string): void {
  if (isThere(path)) return
  try {
    const isRoot = process.geteuid?.() === 0
    if (!isRoot || !makeSpoolAsOwner(path, STATE_DIRECTORY, MODE)) new Opener(null).makeDirectory(path, MODE)
  } catch (error) {
    if (errnoOf(error) === 'EEXIST' || statSync(path, { throwIfNoEntry: false }) !== undefined) return
    checkWay(path)
    const isOrphan = errnoOf(error) === 'ENOENT' && !isThere(dirname(path)) // some file systems, such as /proc, make no directories
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
    return process.geteuid?.() === 0 ? findSpool(path, STATE_DIRECTORY).path : realpathSync.native(path)
  } catch (error) {
    if (error instanceof SpooldError) throw error
    if (errnoOf(error) === 'ENOTDIR' && isFile(path)) throw notDirectory(path)
    checkWay(path)
    // the path is right, but the limit of open files is reached, or the disk fails
    if (errnoOf(error) !== 'ENOENT') throw unusable(path, messageOf(error), null, error)
    const fix = `rm ${shellWord(path)} && ${makeCommand(path, null)}`
    throw unusable(path, `it is a link that leads nowhere (${messageOf(error)})`, fix, error)
  }
}

/**
 * Checks that the real path is the named directory's. Node replaces bytes of a name that are not UTF-8, so the real path that it
 * gives for a link may be nobody's, or another directory's.
 *
 * @returns the real path
 * @throws SpooldError SPOOL_UNUSABLE
 */
export function sameDirectory(path: string, real: string): string {
  const [named, found] = [path, real].map(each => statSync(each, { throwIfNoEntry: false }))
  if (found !== undefined && found.ino === named?.ino && found.dev === named.dev) return real
  throw unusable(path, 'it is a link to a directory whose name is not UTF-8', null)
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === false
}

function notDirectory(path: string): SpooldError {
  return unusable(path, 'it is not a directory', `${asideCommand(path)} && ${makeCommand(path, null)}`)
}

const { R_OK, W_OK, X_OK } = constants
const CHECKS = [
  [X_OK, 'entered'],
  [R_OK, 'listed'],
  [W_OK, 'written to'],
] as const

/**
 * Checks that tasks in a spool can be found, run and removed, and that `.spoold` in it can be used.
 *
 * @throws SpooldError SPOOL_UNUSABLE
 */
export function checkSpool(spool: string): void {
  checkWay(spool)
  const state = join(spool, STATE_DIRECTORY)
  const { uid } = me()
  checkMaster(spool, uid)
  checkDirectory(spool, spool)
  const stats = lstatSync(state, { throwIfNoEntry: false })
  if (stats === undefined) return
  if (!stats.isDirectory()) throw unusable(spool, `${state} is not a directory`, asideCommand(state))
  checkDirectory(spool, state)
  if (stats.uid !== uid) throw foreignState(spool, stats.uid, me())
  for (const entry of readdirSync(state, { withFileTypes: true }))
    if (entry.isDirectory()) checkDirectory(spool, join(state, entry.name))
}

/** Root does not work in directories that other users can change, and runs no other user's tasks. */
function checkMaster(spool: string, uid: number): void {
  if (uid !== 0) return
  const owner = statSync(spool).uid
  if (owner !== 0)
    throw unusable(
      spool,
      `it belongs to uid ${owner}, and a daemon that is root works only in what is root's`,
      `set uid = ${owner} in the configuration, or chown -R -h 0:0 ${shellWord(spool)}`,
    )
  try {
    findSpool(spool, STATE_DIRECTORY)
  } catch (error) {
    if (!(error instanceof SpooldError)) throw error
    const fix = 'set uid in the configuration, or let nobody but root write in the directories above it'
    throw unusable(spool, String(error.details.fault), fix, error)
  }
}

/** Returns the error for a `.spoold` that belongs to another user, who could misuse its contents. */
export function foreignState(spool: string, owner: number, { uid, gid }: Owner): SpooldError {
  const path = shellWord(join(spool, STATE_DIRECTORY))
  return unusable(
    spool,
    `${path} belongs to uid ${owner}, and uid ${uid} takes only its own`,
    `chown -R -h ${uid}:${gid} ${path}, or mv ${path} ${path}.old if you do not know where it comes from`,
  )
}

function checkDirectory(spool: string, directory: string): void {
  for (const [right, done] of CHECKS) {
    if (refusalOf(directory, right) === undefined) continue
    const { uid, gid } = me()
    const which = directory === spool ? 'it' : directory
    const fault = `${which} cannot be ${done} by uid ${uid} (${describeRights(directory)})`
    if (refusalOf(directory, W_OK) === 'EROFS')
      throw unusable(spool, `${fault}: read-only`, remountCommand(directory))
    const path = shellWord(spool)
    const own = `chown ${uid}:${gid} ${path} && chmod u+rwX ${path}`
    throw unusable(spool, fault, directory === spool ? own : `spoold fsck --repair ${path}`)
  }
}

/**
 * Checks that everything above a path is a directory that this process may search.
 *
 * @throws SpooldError SPOOL_UNUSABLE
 */
export function checkWay(path: string): void {
  for (const above of ancestors(path)) {
    const stats = statSync(above, { throwIfNoEntry: false })
    if (stats === undefined) return
    if (!stats.isDirectory())
      throw unusable(
        path,
        `${above} is not a directory`,
        `${asideCommand(above)} && ${makeCommand(path, null)}`,
      )
    if (refusalOf(above, X_OK) === undefined) continue
    const who = me()
    const fault = `${above} cannot be entered by uid ${who.uid} (${describeRights(above)})`
    throw unusable(path, fault, `chmod ${classOf(stats, who)}+x ${shellWord(above)}`)
  }
}

/** Returns the directories above a path, from the root down. */
function ancestors(path: string): string[] {
  const above = dirname(path)
  return above === path ? [] : [...ancestors(above), above]
}

export function me(): Owner {
  return { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 }
}

/** Returns the code of the error if this process lacks a right to the path; undefined if it has the right. */
function refusalOf(path: string, right: number): string | undefined {
  try {
    accessSync(path, right)
    return undefined
  } catch (error) {
    return errnoOf(error) ?? ''
  }
}

function describeRights(path: string): string {
  const { uid, gid, mode } = statSync(path)
  return `owner ${uid}:${gid}, mode ${(mode & 0o7777).toString(8).padStart(4, '0')}`
}

/** Returns which class of mode bits applies to a user, as a letter of chmod. */
function classOf({ uid, gid }: Stats, user: Owner): 'u' | 'g' | 'o' {
  if (uid === user.uid) return 'u'
  return gid === user.gid ? 'g' : 'o'
}

/** Returns the shell command that creates a directory and its missing parents. */
export function makeCommand(path: string, owner: Owner | null): string {
  const { uid, gid } = owner ?? me()
  return `install -d -m 0750 -o ${uid} -g ${gid} ${shellWord(path)}`
}

export function asideCommand(path: string): string {
  return `mv ${shellWord(path)} ${shellWord(`${path}.old`)}`
}

function remountCommand(path: string): string {
  return `mount -o remount,rw "$(findmnt -n -o TARGET --target ${shellWord(path)})"`
}

/** @param fix a command; null if there is none */
function unusable(path: string, fault: string, fix: string | null, cause?: unknown): SpooldError {
  const advice = fix === null ? '' : `. To fix it: ${fix}`
  const message = `the spool directory ${path} cannot be used: ${fault}${advice}`
  return new SpooldError('SPOOL_UNUSABLE', message, { cause, details: { path, fault, fix } })
}
