import { closeSync, constants, lstatSync, openSync, type Stats, unlinkSync } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { errnoOf } from '../base/errors.js'
import { type Ref, toFsPath } from '../task/ref.js'
import { draftedName, hiddenRef } from './draft.js'
import { isPriorityDirectory } from './file-name.js'
import { idsDirectory, publishPromised, readId } from './ids.js'
import { tryHold } from './lock.js'

export interface SweepOptions {
  /** The spool's real path, a byte string. */
  readonly spool: string
  /** A hidden file that nobody changed for so long has no writer any more, unless somebody holds its lock. 0: never. */
  readonly graceMs: number
  /** Ids are forgotten after so long. 0: never. */
  readonly idTtlMs: number
}

/** What a sweep did. */
export interface Swept {
  /** Hidden files of writers that died. */
  readonly removed: number
  /** Tasks that were promised under an id, and whose writer did not come to publish them. */
  readonly published: number
  /** Ids that were forgotten. */
  readonly forgotten: number
}

const ENTRIES_A_READ = 2048

/**
 * Clears away what writers that died left in a spool, its priority directories and `.spoold/ids`. Only our own names are
 * looked at, and tasks never: the listing is the price of a scan. Ages are ctimes, which nobody can set.
 */
export async function sweepSpool({ spool, graceMs, idTtlMs }: SweepOptions): Promise<Swept> {
  const nowMs = Date.now()
  const removed: Ref[] = []
  const published: Ref[] = []
  const leftovers = graceMs === 0 ? [] : await findLeftovers(spool, '', nowMs - graceMs)
  if (leftovers.length > 0) {
    const promised = new Set((await listIds(spool)).map(({ ref }) => ref))
    for (const ref of leftovers)
      if (promised.has(ref)) publishPromised(spool, ref) && published.push(ref)
      else (await removeLeftover(spool, ref)) && removed.push(ref)
  }
  const old = idTtlMs === 0 ? [] : (await listIds(spool)).filter(({ sinceMs }) => sinceMs < nowMs - idTtlMs)
  for (const { link, ref } of old) {
    if (publishPromised(spool, ref)) published.push(ref)
    unlinkSync(toFsPath(link))
  }
  return { removed: removed.length, published: published.length, forgotten: old.length }
}

/** @returns the tasks that hidden files older than `beforeMs` were to become */
async function findLeftovers(spool: string, prefix: string, beforeMs: number): Promise<Ref[]> {
  const leftovers: Ref[] = []
  for await (const entry of list(`${spool}/${prefix}`)) {
    if (entry.isDirectory() && prefix === '' && isPriorityDirectory(entry.name))
      leftovers.push(...(await findLeftovers(spool, `${entry.name}/`, beforeMs)))
    const name = entry.isFile() ? draftedName(entry.name) : undefined
    if (name === undefined) continue
    const stats = statsOf(`${spool}/${prefix}${entry.name}`)
    if (stats !== undefined && stats.ctimeMs < beforeMs) leftovers.push(prefix + name)
  }
  return leftovers
}

/** Under its lock, which a writer that takes his time holds. */
async function removeLeftover(spool: string, ref: Ref): Promise<boolean> {
  const path = toFsPath(`${spool}/${hiddenRef(ref)}`)
  let fd: number | undefined
  try {
    fd = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    if (!(await tryHold(fd).catch(() => true))) return false
    unlinkSync(path)
    return true
  } catch {
    return false // it is gone, or somebody else's
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

interface IdEntry {
  readonly link: string
  readonly ref: Ref
  /** Epoch ms. */
  readonly sinceMs: number
}

async function listIds(spool: string): Promise<IdEntry[]> {
  const ids: IdEntry[] = []
  for await (const entry of list(idsDirectory(spool))) {
    if (!entry.isSymbolicLink()) continue
    const link = `${idsDirectory(spool)}/${entry.name}`
    const ref = readId(link)
    const stats = statsOf(link)
    if (ref !== undefined && stats !== undefined) ids.push({ link, ref, sinceMs: stats.ctimeMs })
  }
  return ids
}

/** The entries of a directory, names as byte strings; none when there is no such directory. */
async function* list(path: string) {
  try {
    yield* await opendir(toFsPath(path), {
      encoding: 'latin1' as BufferEncoding,
      bufferSize: ENTRIES_A_READ,
    })
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error
  }
}

function statsOf(path: string): Stats | undefined {
  return lstatSync(toFsPath(path), { throwIfNoEntry: false })
}
