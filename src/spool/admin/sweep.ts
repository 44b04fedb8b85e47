import { closeSync, constants, type Dirent, fstatSync } from 'node:fs'
import { errnoOf, SpooldError } from '../../base/errors.js'
import { Slices } from '../../base/slices.js'
import { lstatSync, openSync, unlinkSync } from '../../files/anchored-path.js'
import { listEntries, listLocalEntries } from '../../files/entries.js'
import { beside, giveBack } from '../../files/exact-move.js'
import { isLocal } from '../../files/local.js'
import { tryHold } from '../../files/record-lock.js'
import { baseName, type Ref, toFsPath } from '../../task/ref.js'
import { doneInode } from '../claims/settle.js'
import { createTaskName, isPriorityDirectory } from '../names.js'
import { type FileDirectory, holdDirectoryOf } from '../priority-directory.js'
import { draftedName, hiddenRef } from '../store/draft.js'
import { idsDirectory, publishPromised, readId } from '../store/ids.js'

interface SweepOptions {
  /** The spool's real path, a byte string. */
  readonly spool: string
  /** A hidden file unchanged for this long has no live writer, unless its lock is held. 0: never. */
  readonly graceMs: number
  /** Ids are forgotten after this long. 0: never. */
  readonly idTtlMs: number
}

/** What a sweep did. */
interface Swept {
  /** Hidden files of dead writers. */
  readonly removed: number
  /** Tasks that were promised under an id, and whose writer died before it published them. */
  readonly published: number
  /** Tasks that took the name of a finished task just as that was removed. */
  readonly givenBack: number
  /** Ids that were forgotten. */
  readonly forgotten: number
}

/**
 * Removes what dead writers left in a spool, its priority directories and `.spoold/ids`. It looks only at our own names,
 * never at tasks, so a sweep costs as much as a scan. Ages are ctimes, which cannot be set.
 */
export async function sweepSpool({ spool, graceMs, idTtlMs }: SweepOptions): Promise<Swept> {
  const nowMs = Date.now()
  let [removed, published, givenBack, forgotten] = [0, 0, 0, 0]
  if (graceMs > 0)
    for await (const { ref, isPromised } of leftoversIn(spool, nowMs - graceMs)) {
      const cleared = isPromised ? undefined : await clearLeftover(spool, ref)
      if (isPromised) published += Number(publishPromised(spool, ref))
      else if (cleared === 'removed') removed++
      else if (cleared === 'given-back') givenBack++
    }
  if (idTtlMs > 0)
    for await (const { link, ref, sinceMs } of idsIn(spool)) {
      if (ref === undefined || sinceMs >= nowMs - idTtlMs) continue
      published += Number(publishPromised(spool, ref))
      forgotten += Number(forget(link))
    }
  return { removed, published, givenBack, forgotten }
}

/** What a writer left under a hidden name. */
interface Leftover {
  /** The task that it was to become. */
  readonly ref: Ref
  /** Its id is taken: a caller may have been told that it is stored. */
  readonly isPromised: boolean
}

const LEFTOVERS_PER_SCAN = 1000

/** The hidden files of writers, in the spool and its priorities, that nobody changed since `beforeMs`. */
export async function* leftoversIn(spool: string, beforeMs: number): AsyncGenerator<Leftover> {
  let refs = new Set<Ref>()
  for await (const ref of findLeftovers(spool, beforeMs)) {
    refs.add(ref)
    if (refs.size < LEFTOVERS_PER_SCAN) continue
    yield* withPromises(spool, refs)
    refs = new Set()
  }
  if (refs.size > 0) yield* withPromises(spool, refs)
}

async function* withPromises(spool: string, refs: ReadonlySet<Ref>): AsyncGenerator<Leftover> {
  const promised = new Set<Ref>()
  for await (const { ref } of idsIn(spool)) if (ref !== undefined && refs.has(ref)) promised.add(ref)
  for (const ref of refs) yield { ref, isPromised: promised.has(ref) }
}

async function* findLeftovers(spool: string, beforeMs: number): AsyncGenerator<Ref> {
  const list = (await isLocal(spool).catch(() => false)) ? listLocalEntries : listEntries
  const slices = new Slices()
  const mayBe = (entry: Dirent) => entry.isDirectory() || entry.name.startsWith('.')
  async function* findIn(prefix: string): AsyncGenerator<Ref> {
    const rest = slices.rest()
    if (rest !== undefined) await rest
    for await (const entry of list(`${spool}/${prefix}`, mayBe)) {
      if (entry.isDirectory() && prefix === '' && isPriorityDirectory(entry.name))
        yield* findIn(`${entry.name}/`)
      const name = entry.isFile() ? draftedName(entry.name) : undefined
      if (name === undefined) continue
      const stats = lstatSync(toFsPath(`${spool}/${prefix}${entry.name}`))
      if (stats !== undefined && stats.ctimeMs < beforeMs) yield prefix + name
    }
  }
  yield* findIn('')
}

/** @returns false if another process was faster */
function forget(link: string): boolean {
  try {
    unlinkSync(toFsPath(link))
    return true
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
    return false
  }
}

/** Holds the file's lock: slow writers keep it, so they are skipped. @returns false if the file stays */
export async function clearLeftover(spool: string, ref: Ref): Promise<'removed' | 'given-back' | false> {
  let directory: FileDirectory | undefined
  let fd: number | undefined
  try {
    directory = holdDirectoryOf(spool, ref)
    const path = toFsPath(`${directory.path}/${hiddenRef(baseName(ref))}`)
    fd = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    if (!(await tryHold(fd).catch(() => true))) return false
    const ranAs = doneInode(baseName(ref))
    if (ranAs !== undefined && fstatSync(fd, { bigint: true }).ino !== ranAs) {
      giveBack(path, beside(path, createTaskName()), createTaskName)
      return 'given-back'
    }
    unlinkSync(path)
    return 'removed'
  } catch {
    return false // it is gone, or somebody else's
  } finally {
    if (fd !== undefined) closeSync(fd)
    directory?.release()
  }
}

interface IdEntry {
  /** In `.spoold/ids`. */
  readonly name: string
  /** A byte string. */
  readonly link: string
  /** undefined if it is not an id. */
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

/** A broken one does not prevent the sweep of the others. */
function refOf(link: string): Ref | undefined {
  try {
    return readId(link)
  } catch (error) {
    if (error instanceof SpooldError) return undefined
    throw error
  }
}
