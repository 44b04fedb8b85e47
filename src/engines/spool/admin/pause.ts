import { setTimeout } from 'node:timers/promises'
import { errnoOf } from '../../../base/errors.js'
import {
  isSamePair,
  lastingPauses,
  type Pause,
  type PausedPair,
  type Pauses,
} from '../../../base/task/pause.js'
import { displayName, toByteString, toFsPath } from '../../../base/task/ref.js'
import { lstatSync, rmdirSync, unlinkSync } from '../../../system/files/anchored-path.js'
import { syncDirectory } from '../../../system/files/disk-sync.js'
import { takeSpoolLease } from '../locker.js'
import { pausesPath, readPauses, writePauses } from '../pauses.js'
import { findState } from '../state-directory.js'

/** A lease of a killed command expires after 5 s. */
const LEASE_WAIT_MS = 15_000
const LEASE_RETRY_MS = 20
/** Of a disk; both the lease and the file need room. */
const REFUSALS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the quota of the disk is used up',
  EROFS: 'the file system is read-only',
}

interface Resumed {
  readonly ended: readonly Pause[]
  readonly left: Pauses
}

/**
 * Pauses a spool, or its tasks with one pair. A pause of the same tasks is replaced. On disk when this resolves.
 *
 * @param spool its real path
 * @returns everything that is paused now
 * @throws Error when it cannot be written, also when the file there is damaged and means a pause already
 */
export function pauseSpool(spool: string, pause: Pause): Promise<Pauses> {
  return alone(spool, bytes => {
    const { pauses, fault } = readPauses(bytes)
    if (fault !== undefined)
      throw new Error(`${fault}, so the whole spool is paused; spoold resume --all ends that`)
    const others = lastingPauses(pauses, Date.now()).filter(({ pair }) => !isSamePair(pair, pause.pair))
    writePauses(bytes, [...others, pause])
    return { pauses: [...others, pause] }
  })
}

/**
 * Ends the pause of one pair, of the whole spool (null), or all.
 *
 * @param spool its real path
 */
export function resumeSpool(spool: string, which: PausedPair | null | 'all'): Promise<Resumed> {
  return alone(spool, bytes => {
    const { pauses, fault } = readPauses(bytes)
    if (fault !== undefined && which !== 'all')
      throw new Error(`${fault}; look at it, and end all pauses with --all`)
    const lasting = lastingPauses(pauses, Date.now())
    const isEnded = ({ pair }: Pause) => which === 'all' || isSamePair(pair, which)
    const left = lasting.filter(each => !isEnded(each))
    if (left.length > 0) writePauses(bytes, left)
    else remove(bytes)
    return { ended: lasting.filter(isEnded), left: { pauses: left } }
  })
}

function remove(spool: string): void {
  const state = findState(spool)
  if (state === undefined) return
  const path = toFsPath(`${state}/paused`)
  try {
    if (lstatSync(path)?.isDirectory() === true) rmdirSync(path)
    else unlinkSync(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOTEMPTY')
      throw new Error(`${displayName(pausesPath(spool))} is a directory with files in it: move it away`)
    if (errnoOf(error) !== 'ENOENT') throw error
  }
}

/** Changes the pauses while no other command does. */
async function alone<T>(spool: string, act: (bytes: string) => T): Promise<T> {
  try {
    return await underLease(spool, act)
  } catch (error) {
    const why = REFUSALS[errnoOf(error) ?? '']
    throw why === undefined ? error : new Error(`nothing has changed: ${why} (${errnoOf(error)})`)
  }
}

async function underLease<T>(spool: string, act: (bytes: string) => T): Promise<T> {
  const bytes = toByteString(spool)
  const lease = await waitForLease(spool)
  try {
    const result = act(bytes)
    const state = findState(bytes)
    if (state !== undefined) await syncDirectory(state)
    return result
  } finally {
    await lease.release()
  }
}

async function waitForLease(spool: string) {
  const deadline = performance.now() + LEASE_WAIT_MS
  for (;;) {
    const lease = await takeSpoolLease(spool, 'paused', { lost() {}, renewed() {} })
    if (lease !== undefined) return lease
    if (performance.now() > deadline)
      throw new Error('another command has been changing the pauses for too long')
    await setTimeout(LEASE_RETRY_MS)
  }
}
