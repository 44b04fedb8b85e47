import { crypto } from '../../../base/crypto.js'
import { messageOf } from '../../../base/errors.js'
import type { Report } from '../../../base/task/report.js'
import { shownBelow, systemError } from '../../../system/calls.js'
import { named } from '../../../system/files/anchored-path.js'
import { beside, isInPlace, moveExactly } from '../../../system/files/exact-move.js'
import { systemCalls } from '../../../system/libc.js'
import type { Locker } from '../locker.js'
import { createTaskName, hasUwsgiPrefix } from '../names.js'
import { setTime } from '../spool-file.js'
import { lasting, RECORDED, writeState } from '../state-byte.js'
import type { ClaimedFile } from './claim.js'

/** What remains of a claim once its file is settled. */
export type Settled = Pick<Report, 'kind' | 'atMs' | 'detail' | 'reason'>

/** In a run shorter than this, no other process had time to replace the file that ran. */
const QUICK_MS = 1

/**
 * The name under which a finished file waits for its removal. If we die in between, the sweep removes it, or moves it back
 * if its inode differs from the one in the name.
 */
function doneName({ fd, inode }: ClaimedFile): string {
  const exactly = Number.isSafeInteger(inode) ? inode : systemCalls().status(fd).inode
  const random = crypto().randomUUID().slice(-12) // Node draws the bytes of many at once: 6 alone cost as much as 100
  return `.spoold-done-${exactly}-${process.pid}-${random}.tmp`
}

const DONE_NAME = /^done-(\d+)-\d+-[0-9a-f]{12}$/

/** The inode in the hidden name of a finished file, given without prefix and suffix; undefined for any other name. */
export function doneInode(name: string): bigint | undefined {
  const inode = DONE_NAME.exec(name)?.[1]
  return inode === undefined ? undefined : BigInt(inode)
}

/**
 * SPOOL_OK: removes the file while it is still locked. `unlink` removes whatever has the path. A free name may be reused
 * during a run, so the file is first moved to an unpredictable name, and checked there. That costs as much as the removal
 * itself; a quick run under a generated name, which is used once, skips it.
 *
 * @returns the error if it could not be removed
 */
export function removeTask(claim: ClaimedFile, ranMs: number): string | undefined {
  const isAlone = ranMs < QUICK_MS && hasUwsgiPrefix(claim.name)
  try {
    if (isAlone) removeHere(claim)
    else removeExactly(claim)
  } catch (error) {
    return messageOf(named(error))
  }
  return undefined
}

/** As `unlink` for whatever has the name; that there is none is no error, because people may remove a task while it runs. */
function removeHere(claim: ClaimedFile): void {
  const error = systemCalls().tryUnlinkat(claim.directory, claim.name)
  if (error < 0 && error !== ENOENT)
    throw systemError(error, 'unlink', shownBelow(claim.directory, claim.name))
  claim.isRemoved = error === 0 // otherwise it may have another name now, under which somebody waits for its lock
}

/** Missing, as the negative number of the error. */
const ENOENT = -2

function removeExactly(claim: ClaimedFile): void {
  const hidden = beside(claim, doneName(claim))
  try {
    if (!moveExactly(claim, hidden, createTaskName)) return // it was moved or replaced while it ran
  } catch {
    // a full disk may have no room for another name, or the name may be too long; then a check has to do
    if (isInPlace(claim)) removeHere(claim)
    return
  }
  claim.isRemoved = systemCalls().tryUnlinkat(hidden.directory, hidden.name) === 0 // otherwise the sweep does it
}

/**
 * Keeps the file, whose record is written, for another run at `atMs`, by its mtime, which a plain uWSGI honours, too.
 *
 * @returns false if the time cannot be set (a file of another user): then only the record has it
 */
export function postpone(claim: ClaimedFile, atMs: number): boolean {
  writeState(claim.fd, lasting(claim.state) | RECORDED)
  return setTime(claim.fd, atMs)
}

/** Leaves the file as it was found, with its own time. */
export function leaveAsFound(claim: ClaimedFile): void {
  writeState(claim.fd, lasting(claim.state))
  setTime(claim.fd, claim.mtimeMs)
}

/** Ends the claim; the lock is released last. */
export function letGo(claim: ClaimedFile, locker: Locker): void {
  locker.unlock(claim.ref)
  if (claim.isRemoved && !claim.isLinked) closeLater(claim.fd)
  else systemCalls().close(claim.fd)
  claim.held.release()
}

/** More than that would keep much memory, and many descriptors, from others. */
const MOST_UNCLOSED = 16

/**
 * Descriptors of removed files. One call closes all that follow one another, none of which is anybody else's, and most do: the
 * kernel gives the lowest number that is free. Until then the files stay locked, which nobody sees, since no name leads to them.
 */
const removed: number[] = []

function closeLater(fd: number): void {
  if (removed.push(fd) >= MOST_UNCLOSED) closeRemoved()
}

/** Closes what is left open of removed files. */
export function closeRemoved(): void {
  if (removed.length === 0) return
  const fds = removed.splice(0).sort((a, b) => a - b)
  let [first = 0] = fds
  for (const [i, fd] of fds.entries())
    if (fds[i + 1] !== fd + 1) {
      systemCalls().closeRun(first, fd)
      first = fds[i + 1] ?? fd
    }
}
