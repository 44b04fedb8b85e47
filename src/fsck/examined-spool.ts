import { closeSync, constants, fstatSync, lstatSync, readSync, type Stats } from 'node:fs'
import { unlinkSync } from '../files/anchored-path.js'
import { listEntries } from '../files/entries.js'
import { type Locks, readLocks } from '../files/lock-table.js'
import { openSafely } from '../files/quiet-open.js'
import { HEADER_BYTES, MODIFIER2_OFFSET, SPOOL_MODIFIER } from '../protocol/packet.js'
import type { Failures } from '../spool/claims/failures.js'
import type { DeadLetters } from '../spool/dead-letters.js'
import { isLeased, type Locker } from '../spool/locker.js'
import { isPriorityDirectory, isTaskName, type NameRules, STATE_DIRECTORY } from '../spool/names.js'
import type { Owner } from '../spool/permissions.js'
import { inDirectoryOf } from '../spool/priority-directory.js'
import type { Records } from '../spool/records.js'
import { ownState } from '../spool/state-byte.js'
import { baseName, type Ref, toFsPath } from '../task/ref.js'

/** The spool under examination, and by what rules. */
export interface ExaminedSpool {
  /** The spool's real path, a byte string. */
  readonly spool: string
  /** Who has to be able to use it. */
  readonly user: Owner
  /** undefined: nobody told. */
  readonly rules: NameRules | undefined
  /** What nobody changed for so long has no writer any more; 0: never. */
  readonly graceMs: number
  /** 0: for ever. */
  readonly idTtlMs: number
  /** A daemon works here, and counts what its workers leave by itself. */
  readonly isInUse: boolean
  readonly records: Records
  readonly letters: DeadLetters
  readonly failures: Failures
  /** Only to fix: it may make files. */
  locker(): Promise<Locker>
}

/** Deeper than any priority scheme. */
const MAX_DEPTH = 16

/** By the directory that it lies in now. */
export function removeFile({ spool }: ExaminedSpool, path: string): void {
  inDirectoryOf(spool, path, directory => unlinkSync(toFsPath(`${directory}/${baseName(path)}`)))
}

export function statsOf({ spool }: ExaminedSpool, path: string): Stats | undefined {
  return lstatSync(toFsPath(path === '' ? spool : `${spool}/${path}`), { throwIfNoEntry: false })
}

/** Every file of the spool that may be a task, priorities too whether somebody visits them or not. */
export async function* tasksIn(place: ExaminedSpool, prefix = '', depth = 0): AsyncGenerator<Ref> {
  for await (const entry of listEntries(`${place.spool}/${prefix}`)) {
    if (entry.isFile() && isTaskName(entry.name, { ordered: true, strictNames: false }))
      yield prefix + entry.name
    else if (entry.isDirectory() && depth < MAX_DEPTH && isPriorityDirectory(entry.name))
      yield* tasksIn(place, `${prefix}${entry.name}/`, depth + 1)
  }
}

/** Every file below a directory of ours, by its path below that; links are not followed, nor are they files. */
export async function* filesIn(
  place: ExaminedSpool,
  room: string,
  prefix = '',
  depth = 0,
): AsyncGenerator<string> {
  if (prefix === '' && !isOurDirectory(place, room)) return
  for await (const entry of listEntries(`${place.spool}/${STATE_DIRECTORY}/${room}/${prefix}`)) {
    if (entry.isDirectory() && depth < MAX_DEPTH)
      yield* filesIn(place, room, `${prefix}${entry.name}/`, depth + 1)
    else if (entry.isFile()) yield prefix + entry.name
  }
}

export function isOurDirectory(place: ExaminedSpool, room: string): boolean {
  return [STATE_DIRECTORY, `${STATE_DIRECTORY}/${room}`].every(
    path => statsOf(place, path)?.isDirectory() === true,
  )
}

export interface Mark {
  readonly state: number
  readonly inode: number
  readonly mtimeMs: number
  readonly isHeld: boolean
}

const header = Buffer.alloc(HEADER_BYTES)

/** A task's state byte. undefined: there is no packet to be read. */
export function markOf({ spool }: ExaminedSpool, ref: Ref): Mark | undefined {
  const fd = tryOpen(`${spool}/${ref}`)
  if (fd === undefined) return undefined
  try {
    const stats = fstatSync(fd)
    if (!stats.isFile() || readSync(fd, header, 0, HEADER_BYTES, 0) < HEADER_BYTES) return undefined
    if (header[0] !== SPOOL_MODIFIER) return undefined
    const state = ownState(header[MODIFIER2_OFFSET] ?? 0)
    const isHeld = state !== 0 && (currentLocks().isHeld(stats.dev, stats.ino) || isLeased(spool, ref))
    return { state, inode: stats.ino, mtimeMs: stats.mtimeMs, isHeld }
  } finally {
    closeSync(fd)
  }
}

function tryOpen(path: string): number | undefined {
  try {
    return openSafely(path, constants.O_RDONLY)
  } catch {
    return undefined
  }
}

const LOCKS_LAST_MS = 50
let locks: { readonly held: Locks; readonly readAt: number } | undefined

function currentLocks(): Locks {
  const now = performance.now()
  if (locks === undefined || now - locks.readAt > LOCKS_LAST_MS) locks = { held: readLocks(), readAt: now }
  return locks.held
}
