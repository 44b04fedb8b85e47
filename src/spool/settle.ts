import { closeSync, lstatSync, unlinkSync } from 'node:fs'
import { errnoOf, messageOf } from '../base/errors.js'
import type { Report } from '../task/report.js'
import { type FileClaim, type HeldFile, setTimes } from './claim.js'
import type { Locker } from './lock.js'
import { lasting, RECORDED, writeState } from './state-byte.js'

/** What is left to say of a claim once its file is dealt with. */
export type Settled = Pick<Report, 'kind' | 'atMs' | 'detail'>

const SETTLED_OK: Settled = { kind: 'ok' }

/** SPOOL_OK: removes the file while it is still locked. */
export function removeTask(claim: FileClaim): Settled {
  try {
    unlinkSync(claim.fsPath)
  } catch (error) {
    // ENOENT: somebody removed it by hand while it ran
    if (errnoOf(error) !== 'ENOENT')
      return {
        kind: 'unsettled',
        detail: `is done but cannot be removed, it will not run again: ${messageOf(error)}`,
      }
  }
  return SETTLED_OK
}

/**
 * Keeps the file for another run at `atMs`: its mtime says so to every reader, a plain uWSGI among them.
 *
 * @returns false where the time may not be set (a file of another user): then only the record says it
 */
export function postpone(claim: FileClaim, atMs: number, isRecorded: boolean): boolean {
  writeState(claim.fd, lasting(claim.state) | (isRecorded ? RECORDED : 0))
  return setTimes(claim.fd, atMs, atMs)
}

/** Leaves the file as it was found: unread, and with its own time. */
export function leaveAsFound(claim: FileClaim, isMarked: boolean): void {
  if (isMarked) writeState(claim.fd, lasting(claim.state))
  setTimes(claim.fd, claim.mtimeMs, claim.mtimeMs)
}

/** Does the claim's path still lead to its file? Somebody may have moved it, or put another in its place. */
export function isInPlace({ fsPath, inode }: HeldFile): boolean {
  return lstatSync(fsPath, { throwIfNoEntry: false })?.ino === inode
}

/** Ends the claim: the lock falls last. */
export function release(claim: FileClaim, locker: Locker): void {
  locker.unlock(claim.ref)
  closeSync(claim.fd)
}
