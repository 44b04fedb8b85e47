import { closeSync, constants, existsSync, fstatSync, type Stats } from 'node:fs'
import { errnoOf, messageOf, quietly, SpooldError } from '../../../base/errors.js'
import { baseName, displayName, type Ref, toByteString, toFsPath } from '../../../base/task/ref.js'
import {
  openSafely,
  openSync,
  type Place,
  pathOf,
  placeOf,
  renameSync,
  unlinkSync,
} from '../../../system/files/anchored-path.js'
import { isInPlace } from '../../../system/files/exact-move.js'
import { isExpired } from '../../../system/files/lease.js'
import { DeadLetters, deadNameOf } from '../dead-letters.js'
import { leasesOf, openLocker, type TaskLock } from '../locker.js'
import { ALL_NAMES, createTaskName, isPriorityDirectory, isTaskName } from '../names.js'
import { type FileDirectory, holdDirectoryOf } from '../priority-directory.js'
import { probeSpool } from '../probe.js'
import { Records, type TaskRecord } from '../records.js'
import { type LockedFile, packetState } from '../spool-file.js'
import { isNoRoom } from '../store/write.js'

/** A spool, and how its files are locked. */
export interface OpenSpool {
  /** Its real path, a byte string. */
  readonly spool: string
  readonly locker: TaskLock
  /** Where its daemons are asked, if not at the sockets in the spool. */
  readonly sockets?: readonly string[] | undefined
}

/** The file that a command changes, locked as for a run. `ref` is its path below the spool, for a dead letter too. */
export interface TargetFile extends LockedFile {
  readonly stats: Stats
}

/** The result of a requested change. */
export type Changed =
  /** `to`: the task's new path below its spool. */
  | { readonly kind: 'done'; readonly to?: Ref }
  /** The task has run or was removed meanwhile. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'running' }
  | { readonly kind: 'refused'; readonly detail: string }

export const DONE: Changed = { kind: 'done' }

export function refused(detail: string): Changed {
  return { kind: 'refused', detail }
}

/**
 * Opens a spool with the locking of any daemon that may run on it: record locks if they work, and also leases if leases
 * are in use.
 *
 * @param spool its real path
 */
export async function openSpool(spool: string): Promise<OpenSpool> {
  const { locks } = await probeSpool(spool, 'auto')
  const locker = await openLocker(spool, locks, isExpired)
  const hasLeases = locks === 'ofd' && existsSync(toFsPath(leasesOf(toByteString(spool))))
  return {
    spool: toByteString(spool),
    locker: hasLeases ? both(locker, await openLocker(spool, 'lockfile', isExpired)) : locker,
  }
}

function both(locks: TaskLock, leases: TaskLock): TaskLock {
  const { skewMs, isRemote } = locks // both kinds of lock are on the same file system
  return {
    skewMs,
    isRemote,
    tryLock(fd, ref) {
      if (!locks.tryLock(fd, ref)) return false
      try {
        if (leases.tryLock(fd, ref)) return true
      } catch (error) {
        if (isNoRoom(error)) return true // without room, nobody else can take its lease either
        throw error
      }
      locks.unlock(ref)
      return false
    },
    unlock(ref) {
      locks.unlock(ref)
      leases.unlock(ref)
    },
  }
}

/**
 * Locks a file and changes it; the file stays locked until the change is over. A running task is left alone.
 *
 * @throws the file system's error if the file cannot be changed
 */
export async function change(
  { spool, locker }: OpenSpool,
  ref: Ref,
  act: (file: TargetFile) => Changed | Promise<Changed>,
): Promise<Changed> {
  let directory: FileDirectory | undefined
  let fd: number | undefined
  let isLocked = false
  try {
    let path: string
    try {
      directory = holdDirectoryOf(spool, ref)
      path = `${directory.path}/${baseName(ref)}`
      fd = openSafely(path, constants.O_RDWR)
    } catch (error) {
      return refusalOfOpen(error)
    }
    isLocked = locker.tryLock(fd, ref)
    if (!isLocked) return { kind: 'running' }
    const file = examine(ref, placeOf(path), fd)
    return 'kind' in file ? file : await act(file)
  } finally {
    if (isLocked) locker.unlock(ref)
    if (fd !== undefined) closeSync(fd)
    directory?.release()
  }
}

function refusalOfOpen(error: unknown): Changed {
  switch (errnoOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return { kind: 'gone' }
    case 'ELOOP':
      return refused('it is a symbolic link, which is never run')
    case 'ENXIO':
    case 'EISDIR':
      return refused('it is not a regular file, so it is never run')
    default:
      return refused(`uid ${process.geteuid?.()} cannot open it: ${messageOf(error)}`)
  }
}

function examine(ref: Ref, place: Place, fd: number): TargetFile | Changed {
  const stats = fstatSync(fd)
  const file = { ref, ...place, fd, stats }
  if (!stats.isFile()) return refused('it is not a regular file, so it is never run')
  if (!isInPlace(file)) return { kind: 'gone' }
  const state = packetState(fd)
  return state === undefined ? file : { ...file, state }
}

export function remove(at: OpenSpool, file: TargetFile): Changed {
  unlinkSync(pathOf(file))
  forget(at, file.ref)
  return DONE
}

/**
 * Removes the record of a task, or the reason of a dead letter, whose file has left. A failure is ignored: a record or a
 * reason without a file does no harm, and fsck finds it.
 */
export function forget({ spool }: OpenSpool, ref: Ref): void {
  const name = deadNameOf(ref)
  quietly(() => {
    if (name === undefined) new Records(spool).remove(ref)
    else new DeadLetters(spool).forget(name)
  })
}

const NEW_FILE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL

/**
 * Brings a file into a spool by a rename, with its record: under the wanted name or, if that is taken, under a new one of
 * uWSGI's form.
 *
 * The name is reserved by an empty, locked file, which no daemon runs, and which the rename replaces. After a kill before
 * the rename, the empty file remains; it is never run, and is buried as incomplete after the grace period.
 *
 * @param prepare called when the record is there and the file is not yet
 * @returns the file's path in the spool
 */
export function bring(
  { spool, locker }: OpenSpool,
  file: TargetFile,
  wanted: Ref,
  record: TaskRecord | undefined,
  prepare: () => void = () => {},
): Ref {
  const prefix = directoryOf(wanted)
  const directory = makePriorityDirectories(spool, prefix)
  try {
    const { name, fd } = reserve(directory.path, baseName(wanted))
    const [ref, fsPath] = [prefix + name, toFsPath(`${directory.path}/${name}`)]
    const isLocked = fd !== undefined && locker.tryLock(fd, ref)
    const records = new Records(spool)
    let hasArrived = false
    try {
      if (record === undefined) records.remove(ref)
      else records.write(ref, record)
      prepare()
      renameSync(pathOf(file), fsPath)
      hasArrived = true
      return ref
    } finally {
      if (!hasArrived) quietly(() => records.remove(ref))
      if (!hasArrived && fd !== undefined) unlinkSync(fsPath)
      if (isLocked) locker.unlock(ref)
      if (fd !== undefined) closeSync(fd)
    }
  } finally {
    directory.release()
  }
}

interface Made {
  readonly name: string
  /** Undefined if there is no room even for an empty file; the name is unique anyway. */
  readonly fd: number | undefined
}

function reserve(directory: string, wanted: string): Made {
  const isFit = wanted !== '' && isTaskName(wanted, ALL_NAMES)
  let made = isFit ? tryCreate(directory, wanted) : undefined
  while (made === undefined) made = tryCreate(directory, createTaskName())
  return made
}

function tryCreate(directory: string, name: string): Made | undefined {
  try {
    return { name, fd: openSync(toFsPath(`${directory}/${name}`), NEW_FILE, 0o600) }
  } catch (error) {
    if (isNoRoom(error)) return { name: createTaskName(), fd: undefined }
    if (errnoOf(error) !== 'EEXIST') throw error
    return undefined
  }
}

/** The priority of a path, with a trailing slash; '' if it has none, or if its directory is not a priority. */
function directoryOf(ref: Ref): string {
  const names = ref.split('/').slice(0, -1)
  return names.every(isPriorityDirectory) ? names.map(name => `${name}/`).join('') : ''
}

/** Holds the directory of a priority; creates it if it is missing. */
function makePriorityDirectories(spool: string, prefix: string): FileDirectory {
  try {
    return holdDirectoryOf(spool, `${prefix}task`, { mayMake: true })
  } catch (error) {
    if (errnoOf(error) !== 'ENOTDIR') throw error
    throw new SpooldError(
      'SPOOL_UNUSABLE',
      `${displayName(`${spool}/${prefix}`)} is a file or a link, not a directory; remove it`,
    )
  }
}
