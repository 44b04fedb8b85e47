import { closeSync, constants, fstatSync } from 'node:fs'
import { errnoOf, quietly, SpooldError } from '../../../base/errors.js'
import { baseName, prefixOf, type Ref, toFsPath } from '../../../base/task/ref.js'
import {
  lstatSync,
  openSync,
  pathOf,
  placeOf,
  textOf,
  unlinkSync,
} from '../../../system/files/anchored-path.js'
import { listEntries } from '../../../system/files/entries.js'
import { beside, giveBack, moveExactly } from '../../../system/files/exact-move.js'
import { tryHold } from '../../../system/libc.js'
import type { SweepAges, Swept } from '../../contracts/upkeep.js'
import { doneInode } from '../claims/settle.js'
import { createTaskName } from '../names.js'
import { type FileDirectory, holdDirectoryOf } from '../priority-directory.js'
import { isRecord, recordNames } from '../records.js'
import { type ScanVisitor, scanAll } from '../scan.js'
import { jsonNameOf, removeIfThere, stateRoom } from '../state-directory.js'
import { draftedName, hiddenRef, idsDirectory, publishPromised, readId } from '../store/draft.js'

/**
 * Removes the leftovers of dead writers in a spool, its priority directories and `.spoold/ids`. It opens only files with
 * our own hidden names, never tasks, so a sweep costs as much as a scan. Ages are those of ctimes, which cannot be set.
 *
 * @param spool its real path, a byte string
 */
export async function sweepSpool({
  spool,
  graceMs,
  idTtlMs,
}: SweepAges & { readonly spool: string }): Promise<Swept> {
  const nowMs = Date.now()
  const beforeMs = nowMs - graceMs
  const swept = { removed: 0, published: 0, givenBack: 0, forgotten: 0 }
  if (graceMs > 0)
    for await (const { ref, isPromised } of leftoversIn(spool, beforeMs)) {
      const how = isPromised
        ? publishPromised(spool, ref) && 'published'
        : await clearLeftover(spool, ref, beforeMs)
      if (how !== false) swept[how]++
    }
  if (idTtlMs > 0)
    for await (const { link, ref, sinceMs } of idsIn(spool)) {
      if (ref === undefined || sinceMs >= nowMs - idTtlMs) continue
      swept.published += Number(publishPromised(spool, ref))
      swept.forgotten += Number(removeIfThere(link))
    }
  return swept
}

/** A hidden file that a writer left behind. */
interface Leftover {
  /** The task that it was meant to become. */
  readonly ref: Ref
  /** True if an id leads to the task, so that a caller may know that it is stored. */
  readonly isPromised: boolean
}

/**
 * Yields the hidden files of writers, in the spool and its priorities, that have not changed since `beforeMs`. A writer renews its
 * file before it promises it, so one that is promised after this look is seen by its time.
 */
export async function* leftoversIn(spool: string, beforeMs: number): AsyncGenerator<Leftover> {
  const refs = new Set(await findLeftovers(spool, beforeMs))
  if (refs.size === 0) return
  const promised = new Set<Ref>()
  for await (const { ref } of idsIn(spool)) if (ref !== undefined && refs.has(ref)) promised.add(ref)
  for (const ref of refs) yield { ref, isPromised: promised.has(ref) }
}

async function findLeftovers(spool: string, beforeMs: number): Promise<Ref[]> {
  const refs: Ref[] = []
  const visitor: ScanVisitor = {
    task: () => true,
    other(ref) {
      const name = draftedName(baseName(ref))
      const stats = name === undefined ? undefined : lstatSync(toFsPath(`${spool}/${ref}`))
      if (stats?.isFile() === true && stats.ctimeMs < beforeMs) refs.push(`${prefixOf(ref)}${name}`)
    },
    failed() {}, // of a directory that lets nobody in: the scanner reports it
  }
  try {
    await scanAll(spool, visitor)
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
  }
  return refs
}

/**
 * Removes a leftover, or gives it a name again if it was moved away in place of a finished task. It takes the file's lock,
 * so that slow writers, which hold it, are skipped. A file that has changed again since it was found is skipped, too: its
 * writer was suspended, and may have promised it by now.
 *
 * @returns false if the file stays
 */
export async function clearLeftover(
  spool: string,
  ref: Ref,
  beforeMs: number,
): Promise<'removed' | 'givenBack' | false> {
  let directory: FileDirectory | undefined
  let fd: number | undefined
  try {
    directory = holdDirectoryOf(spool, ref)
    const path = toFsPath(`${directory.path}/${hiddenRef(baseName(ref))}`)
    fd = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    if (!(await tryHold(fd).catch(() => true)) || fstatSync(fd).ctimeMs >= beforeMs) return false
    const ranAs = doneInode(baseName(ref))
    if (ranAs !== undefined && fstatSync(fd, { bigint: true }).ino !== ranAs) {
      giveBack(placeOf(path), beside(placeOf(path), createTaskName()), createTaskName)
      return 'givenBack'
    }
    unlinkSync(path)
    return 'removed'
  } catch {
    return false // gone, or another user's
  } finally {
    if (fd !== undefined) closeSync(fd)
    directory?.release()
  }
}

interface IdEntry {
  /** Its name in `.spoold/ids`. */
  readonly name: string
  /** Its path, a byte string. */
  readonly link: string
  /** Undefined if the entry is not an id. */
  readonly ref: Ref | undefined
  /** Epoch ms. */
  readonly sinceMs: number
}

export async function* idsIn(spool: string): AsyncGenerator<IdEntry> {
  for await (const { name } of listEntries(idsDirectory(spool))) {
    const link = `${idsDirectory(spool)}/${name}`
    const stats = lstatSync(toFsPath(link))
    if (stats !== undefined) yield { name, link, ref: refOf(link), sinceMs: stats.ctimeMs }
  }
}

/** Ignores an invalid id file, so that it does not prevent the sweep of the others. */
function refOf(link: string): Ref | undefined {
  try {
    return readId(link)
  } catch (error) {
    if (error instanceof SpooldError) return undefined
    throw error
  }
}

/**
 * Removes the records of tasks that are gone, because a uWSGI ran them or a user removed them. Recent records are left
 * alone: a process that is about to bring a task into the spool writes its record first.
 *
 * @param spool its real path, a byte string
 * @param beforeMs records changed since then are left alone
 * @returns the number of removed records
 */
export async function sweepRecords(spool: string, beforeMs: number): Promise<number> {
  let removed = 0
  for await (const name of recordNames(spool)) if (removeOrphan(spool, name, beforeMs)) removed++
  return removed
}

function removeOrphan(spool: string, name: string, beforeMs: number): boolean {
  const fsPath = toFsPath(`${stateRoom(spool, 'records')}/${name}`)
  try {
    if ((lstatSync(fsPath)?.ctimeMs ?? beforeMs) >= beforeMs) return false
    const fd = openSync(fsPath, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const ref = fstatSync(fd).ctimeMs < beforeMs ? taskOf(fd, name) : undefined
      if (ref === undefined || isThere(`${spool}/${ref}`)) return false
      return removeExactly(fd, fsPath)
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
    return false
  }
}

/** The task that a record belongs to; undefined if the file is not a record, or is not at that task's record path. */
function taskOf(fd: number, name: string): Ref | undefined {
  const value = quietly<unknown>(() => JSON.parse(textOf(fd)))
  const ref = isRecord(value) ? (value.ref ?? name.slice(0, -'.json'.length)) : undefined
  return ref !== undefined && jsonNameOf(ref) === name ? ref : undefined
}

function isThere(path: string): boolean {
  return lstatSync(toFsPath(path)) !== undefined
}

/** Removes exactly the open file, and not a record just written for a new task of the same name. */
function removeExactly(fd: number, fsPath: string | Buffer): boolean {
  const place = placeOf(fsPath)
  const aside = { ...place, name: `${place.name}.${process.pid}.tmp` }
  if (!moveExactly({ ...place, fd }, aside, createTaskName)) return false
  unlinkSync(pathOf(aside))
  return true
}
