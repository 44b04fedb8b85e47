import { closeSync, unlinkSync } from 'node:fs'
import { errnoOf, messageOf } from '../base/errors.js'
import type { Report } from '../task/report.js'
import { type FileClaim, setTimes } from './claim.js'
import type { Locker } from './lock.js'
import { RECORDED, STARTED, SUSPECT, writeState } from './state-byte.js'

/** What is left to say of a claim once its file is dealt with. */
export type Settled = Pick<Report, 'kind' | 'atMs' | 'detail'>

const SETTLED_OK: Settled = { kind: 'ok' }

/** SPOOL_OK: removes the file while it is still locked. */
export function removeTask(claim: FileClaim): Settled {
  try {
    unlinkSync(claim.fsPath)
  } catch (error) {
    // ENOENT: somebody removed it by hand while it ran
    if (errnoOf(error) !== 'ENOENT') return { kind: 'unsettled', detail: messageOf(error) }
  }
  return SETTLED_OK
}

/**
 * Keeps the file for another run at `atMs`: its mtime says so to every reader, a plain uWSGI among them. Where the time
 * may not be set (a file of another user), only this daemon waits.
 */
export function postpone(claim: FileClaim, atMs: number, isRecorded: boolean): void {
  writeState(claim.fd, isRecorded ? RECORDED : 0)
  setTimes(claim.fd, atMs, atMs)
}

/** Leaves the file as it was found: unread, and with its own time. */
export function leaveAsFound(claim: FileClaim, isMarked: boolean): void {
  if (isMarked) writeState(claim.fd, claim.state & ~(STARTED | SUSPECT))
  setTimes(claim.fd, claim.mtimeMs, claim.mtimeMs)
}

/** Ends the claim: the lock falls last. */
export function release(claim: FileClaim, locker: Locker): void {
  locker.unlock(claim.ref)
  closeSync(claim.fd)
}
