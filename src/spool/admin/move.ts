import { closeSync, constants, fchmodSync, fsyncSync, readSync, writeSync } from 'node:fs'
import { errnoOf } from '../../base/errors.js'
import { openSync, renameSync, unlinkSync } from '../../files/anchored-path.js'
import { toFsPath } from '../../task/ref.js'
import { createTaskName } from '../names.js'
import { Records } from '../records.js'
import { setTime } from '../spool-file.js'
import { pastOf } from '../state-byte.js'
import { hiddenRef } from '../store/draft.js'
import { type Arrival, makeArrival } from './arrival.js'
import { type Changed, DONE, displayPath, type OpenSpool, refused, type TargetFile } from './change.js'
import { hold, recordOf } from './hold.js'

const CHUNK_BYTES = 1024 * 1024
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL

/**
 * Moves a task to another spool, with its time, state byte and record. It stays locked until it has arrived.
 *
 * Within one file system, a rename does it. After a kill before the rename, the task is in the source (and an empty file or
 * a record, which no daemon runs, in the target); after it, in the target (and its record in the source, where fsck finds
 * it). Across file systems, see `copyAcross`.
 */
export function move(from: OpenSpool, to: OpenSpool, file: TargetFile): Changed {
  const refusal = whyNot(from, to, file)
  if (refusal !== undefined) return refusal
  const arrival = makeArrival(to, file.ref)
  let hasArrived = false
  try {
    const records = new Records(from.spool)
    const record = recordOf(records, file)
    if (record === undefined) new Records(to.spool).remove(arrival.ref)
    else new Records(to.spool).write(arrival.ref, record)
    const moved = bring(from, to, file, arrival)
    if (moved.kind !== 'done') return moved
    hasArrived = true
    records.remove(file.ref)
    return { kind: 'done', to: arrival.ref }
  } finally {
    arrival.end(hasArrived)
  }
}

function whyNot(from: OpenSpool, to: OpenSpool, file: TargetFile): Changed | undefined {
  if (from.spool === to.spool) return refused('it is there already')
  const record = recordOf(new Records(from.spool), file)
  // the record identifies the file by its inode; a copy has another one, so it would run again
  const past = pastOf(file.state ?? 0)
  if (past === 'done' || (past === 'done-if-recorded' && record?.doneInode === file.inode))
    return refused('it has run, and only waits to be removed')
  if (record?.movedTo !== undefined)
    return refused(
      `a move to ${record.movedTo} did not end: it may be there, or have run; then rm it here, else kick it`,
    )
  return undefined
}

function bring(from: OpenSpool, to: OpenSpool, file: TargetFile, arrival: Arrival): Changed {
  try {
    renameSync(file.fsPath, arrival.fsPath)
    return DONE
  } catch (error) {
    if (errnoOf(error) !== 'EXDEV') throw error
    return copyAcross(from, to, file, arrival)
  }
}

/**
 * Moves a task to another file system, which takes several steps. After a kill during or after each of them:
 *
 * 1. the copy is written under a hidden name: the source task is unchanged, and a sweep removes the hidden file;
 * 2. the source task is held, with a note of the move: no daemon runs it, and `ls` shows where it may be;
 * 3. the copy is published: it runs in the target, and the source task stays held until a user removes it;
 * 4. the source task is removed.
 *
 * So the task never runs twice, and a task that does not run stays visible.
 */
function copyAcross(from: OpenSpool, to: OpenSpool, file: TargetFile, arrival: Arrival): Changed {
  const { ref, directory, fsPath } = arrival
  const draft = hiddenRef(createTaskName()) // a new name: with a prefix, a name of 255 bytes would be too long
  const hidden = toFsPath(`${directory}/${draft}`)
  const copy = openSync(hidden, NEW_FILE, 0o600)
  let isHidden = true
  try {
    // the lock tells a sweep that the writer is alive; with leases, one on the name is already held
    if (to.locker.kind === 'ofd') to.locker.tryLock(copy, draft)
    copyBytes(file.fd, copy)
    fchmodSync(copy, file.stats.mode & 0o7777)
    setTime(copy, file.stats.mtimeMs)
    fsyncSync(copy)
    const held = hold(from, file, { movedTo: displayPath(to, ref) })
    if (held.kind !== 'done') return held
    renameSync(hidden, fsPath)
    isHidden = false
    syncDirectory(directory)
    unlinkSync(file.fsPath)
    return DONE
  } finally {
    if (isHidden) unlinkSync(hidden)
    if (to.locker.kind === 'ofd') to.locker.unlock(draft)
    closeSync(copy)
  }
}

function copyBytes(from: number, to: number): void {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  for (let at = 0; ; ) {
    const got = readSync(from, chunk, 0, CHUNK_BYTES, at)
    if (got === 0) return
    for (let put = 0; put < got; ) put += writeSync(to, chunk, put, got - put, at + put)
    at += got
  }
}

/** Syncs the target, so that the source is removed only once the copy would survive a power failure. */
function syncDirectory(path: string): void {
  const fd = openSync(toFsPath(`${path}/.`), constants.O_RDONLY)
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
