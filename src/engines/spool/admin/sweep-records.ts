import { closeSync, constants, fstatSync } from 'node:fs'
import { errnoOf } from '../../../base/errors.js'
import { type Ref, toFsPath } from '../../../base/task/ref.js'
import {
  lstatSync,
  openSync,
  pathOf,
  placeOf,
  textOf,
  unlinkSync,
} from '../../../system/files/anchored-path.js'
import { listEntries } from '../../../system/files/entries.js'
import { moveExactly } from '../../../system/files/exact-move.js'
import { createTaskName } from '../names.js'
import { jsonNameOf } from '../record-name.js'
import { isRecord } from '../records.js'
import { hasStateRoom, stateRoom } from '../state-directory.js'

/** Nested directories: deeper than any priority scheme. */
const MAX_DEPTH = 16

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
  if (!hasStateRoom(spool, 'records')) return removed
  for await (const name of filesIn(spool)) if (removeOrphan(spool, name, beforeMs)) removed++
  return removed
}

/** The tasks that have failed or are held, as the names of their records say. Those whose names are too long are left out. */
export async function* recordedRefs(spool: string): AsyncGenerator<Ref> {
  if (!hasStateRoom(spool, 'records')) return
  for await (const name of filesIn(spool)) yield name.slice(0, -'.json'.length)
}

async function* filesIn(spool: string, prefix = '', depth = 0): AsyncGenerator<string> {
  for await (const entry of listEntries(`${stateRoom(spool, 'records')}/${prefix}`))
    if (entry.isDirectory() && depth < MAX_DEPTH) yield* filesIn(spool, `${prefix}${entry.name}/`, depth + 1)
    else if (entry.isFile() && entry.name.endsWith('.json')) yield prefix + entry.name
}

function removeOrphan(spool: string, name: string, beforeMs: number): boolean {
  const fsPath = toFsPath(`${stateRoom(spool, 'records')}/${name}`)
  try {
    if ((lstatSync(fsPath)?.ctimeMs ?? beforeMs) >= beforeMs) return false
    const fd = openSync(fsPath, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const ref = fstatSync(fd).ctimeMs < beforeMs ? refOf(fd, name) : undefined
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
function refOf(fd: number, name: string): Ref | undefined {
  try {
    const value: unknown = JSON.parse(textOf(fd))
    const ref = isRecord(value) ? (value.ref ?? name.slice(0, -'.json'.length)) : undefined
    return ref !== undefined && jsonNameOf(ref) === name ? ref : undefined
  } catch {
    return undefined
  }
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
