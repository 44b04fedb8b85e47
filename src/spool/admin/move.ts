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
import { type Changed, DONE, displayPath, type LockedFile, type OpenSpool, refused } from './change.js'
import { hold, recordOf } from './hold.js'

const CHUNK_BYTES = 1024 * 1024
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL

/**
 * Moves a task to another spool, with its time, its state byte and its record. It stays locked until it is there.
 *
 * On one file system a rename is all: after a kill before it the task is here (and there an empty file or a record,
 * which nobody runs), after it there (and its record here, which fsck finds). Elsewhere see `copyAcross`.
 */
export function move(from: OpenSpool, to: OpenSpool, file: LockedFile): Changed {
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

function whyNot(from: OpenSpool, to: OpenSpool, file: LockedFile): Changed | undefined {
  if (from.spool === to.spool) return refused('it is there already')
  const record = recordOf(new Records(from.spool), file)
  // the record knows it by its inode, which a copy has not: it would run once more
  const past = pastOf(file.state ?? 0)
  if (past === 'done' || (past === 'done-if-recorded' && record?.doneInode === file.inode))
    return refused('it has run, and only waits to be removed')
  if (record?.movedTo !== undefined)
    return refused(
      `a move to ${record.movedTo} did not end: it may be there, or have run; then rm it here, else kick it`,
    )
  return undefined
}

function bring(from: OpenSpool, to: OpenSpool, file: LockedFile, arrival: Arrival): Changed {
  try {
    renameSync(file.fsPath, arrival.fsPath)
    return DONE
  } catch (error) {
    if (errnoOf(error) !== 'EXDEV') throw error
    return copyAcross(from, to, file, arrival)
  }
}

/**
 * Between file systems nothing is done in one step. What a kill leaves:
 *
 * 1. the copy under its hidden name: the task here, and there a hidden file that is swept;
 * 2. the task here held, with a note of the move: nobody runs it, and `ls` says where it may be;
 * 3. the copy published: it runs there; here it is held as before, until a person removes it;
 * 4. the task here removed.
 *
 * So there never are two that run, and what does not run is there to be seen.
 */
function copyAcross(from: OpenSpool, to: OpenSpool, file: LockedFile, arrival: Arrival): Changed {
  const { ref, directory, fsPath } = arrival
  const draft = hiddenRef(createTaskName()) // made of a name of 255 bytes it would be too long
  const hidden = toFsPath(`${directory}/${draft}`)
  const copy = openSync(hidden, NEW_FILE, 0o600)
  let isHidden = true
  try {
    // the lock tells a sweep that its writer lives; a lease on the name is held already
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

/** What is here is removed only when what is there would survive a power failure. */
function syncDirectory(path: string): void {
  const fd = openSync(toFsPath(`${path}/.`), constants.O_RDONLY)
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
