import { closeSync, constants, fstatSync } from 'node:fs'
import { errnoOf, quietly, SpooldError } from '../../base/errors.js'
import { crypto } from '../../base/on-demand.js'
import { toFsPath } from '../../base/task/ref.js'
import type { FreeSlots } from '../../base/task/report.js'
import type { NamedSlots, SlotWish } from '../../base/task/terms.js'
import { type Directory, holdDirectory, lstatSync, openSync } from '../../system/files/anchored-path.js'
import { isNoLongerRenewed, openLeases } from '../../system/files/lease.js'
import { libc } from '../../system/libc.js'
import type { LockKind } from './locker.js'
import { STATE_DIRECTORY } from './names.js'
import { makeStateRoom, stateRoom } from './state-directory.js'

/**
 * The slots of named tasks on disk. Slot n of a name is a lock on the file `.spoold/slots/<SHA-1 of the name>/<n>`, so the slot
 * of a process that dies is free at once. Under leases, the slot is the lease `<n>.lock` in the same place, and is free when
 * that lease ends.
 */

/** A slot that this process has. */
export interface HeldSlot {
  readonly number: number
  release(): void
}

// O_NONBLOCK: a FIFO under the name of a slot must not stop us. O_NOFOLLOW: a link must not lead us elsewhere.
const OPEN = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK
const directories = new Map<string, string>()

/** Returns the name of a directory in `.spoold/slots`. The names are kept in memory, because tasks have few. */
function directoryOf(name: string): string {
  const known = directories.get(name)
  if (known !== undefined) return known
  const hash = crypto().createHash('sha1').update(name, 'utf8').digest('hex')
  directories.set(name, hash)
  return hash
}

/**
 * Takes a slot of a name, whichever is free; this process may have several.
 *
 * @param spool a byte string
 * @param from the slot that is tried first
 * @param held the slots that are not tried, because this process has them
 * @returns undefined if all are taken
 * @throws the error of a call, if it is unknown whether one is free
 */
export type TakeSlot = (
  spool: string,
  slots: NamedSlots,
  from: number,
  held: ReadonlySet<number>,
) => HeldSlot | undefined

export function slotTaker(kind: LockKind): TakeSlot {
  const tryTake = kind === 'ofd' ? lockTaker() : leaseTaker()
  return (spool, { name, count }, from, held) => {
    const directory = holdSlots(spool, name, true)
    if (directory === undefined) return undefined
    try {
      for (let i = 0; i < count; i++) {
        const number = (from + i) % count
        const release = held.has(number) ? undefined : tryTake(directory, number)
        if (release !== undefined) return { number, release }
      }
      return undefined
    } finally {
      directory.release()
    }
  }
}

type TryTake = (directory: Directory, number: number) => (() => void) | undefined

function lockTaker(): TryTake {
  const locks = libc()
  return (directory, number) => {
    const fd = openSync(toFsPath(`${directory.path}/${number}`), OPEN | constants.O_CREAT, 0o600)
    let isTaken = false
    try {
      isTaken = locks.tryLock(fd) && isInUse(fd, number)
    } finally {
      if (!isTaken) closeSync(fd)
    }
    return isTaken ? () => closeSync(fd) : undefined
  }
}

/** @returns false if somebody has removed the file: the next try makes a new one @throws if it is not a regular file */
function isInUse(fd: number, number: number): boolean {
  const stats = fstatSync(fd)
  if (!stats.isFile())
    throw new SpooldError('SPOOL_UNUSABLE', `slot ${number} is not a regular file; remove it`)
  return stats.nlink > 0
}

function leaseTaker(): TryTake {
  const leases = openLeases(isNoLongerRenewed)
  return (directory, number) => {
    const path = `${directory.path}/${number}.lock`
    if (!leases.tryTake(path, `slot ${number}`)) return undefined
    directory.use() // the lease is renewed by its path
    return () => {
      try {
        leases.giveBack(path)
      } finally {
        directory.release()
      }
    }
  }
}

/** Looks which slots of some names are free. @param asked the names, and how many free slots of each are enough @see Looker */
export function lookAtSlots(spool: string, asked: readonly SlotWish[]): FreeSlots {
  const begun = performance.now()
  const numbers = asked.map(({ wanted, ...slots }) => quietly(() => freeSlots(spool, slots, wanted), null))
  return { numbers, tookMs: performance.now() - begun }
}

/**
 * Returns which slots of a name are free, as far as the locks and leases of all processes tell.
 *
 * @param most this many are enough
 * @throws the error of a call, if it is unknown
 */
export function freeSlots(spool: string, { name, count }: NamedSlots, most: number): number[] {
  const directory = holdSlots(spool, name, false)
  const free: number[] = []
  try {
    for (let number = 0; number < count && free.length < most; number++)
      if (directory === undefined || isFree(`${directory.path}/${number}`)) free.push(number)
    return free
  } finally {
    directory?.release()
  }
}

function isFree(path: string): boolean {
  const lease = lstatSync(toFsPath(`${path}.lock`))
  return (lease === undefined || isNoLongerRenewed(lease)) && !isLocked(path)
}

/**
 * True if a process has the slot locked. The look takes no lock: a worker that tries meanwhile would find the slot taken, and
 * leave its name alone.
 */
function isLocked(path: string): boolean {
  let fd: number
  try {
    fd = openSync(toFsPath(path), OPEN)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false
    throw error
  }
  try {
    return libc().isLocked(fd)
  } finally {
    closeSync(fd)
  }
}

/**
 * Holds the directory of a name, anchored: `.spoold` is ours, and neither it nor what is below may be a link.
 *
 * @param isMade true to make a missing directory
 * @returns undefined if the directory is missing and not made
 */
function holdSlots(spool: string, name: string, isMade: boolean): Directory | undefined {
  const hash = directoryOf(name)
  try {
    return holdBoth(spool, hash)
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
  }
  if (!isMade) return undefined
  makeStateRoom(spool, 'slots', `${hash}/`)
  return holdBoth(spool, hash)
}

function holdBoth(spool: string, hash: string): Directory {
  const name = `${spool}/${STATE_DIRECTORY}/slots`
  const all = holdDirectory(stateRoom(spool, 'slots'), name)
  try {
    return holdDirectory(`${all.path}/${hash}`, `${name}/${hash}`)
  } finally {
    all.release()
  }
}
