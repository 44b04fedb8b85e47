import { closeSync, constants, fstatSync, lstatSync as lstatOf, type Stats } from 'node:fs'
import { counted } from '../../base/counted.js'
import { errnoOf } from '../../base/errors.js'
import { baseName, type Ref, toByteString, toFsPath } from '../../base/task/ref.js'
import { openSpool } from '../../engines/spool/admin/change.js'
import { type SettleOptions, Settler } from '../../engines/spool/claims/settle.js'
import { DeadLetters } from '../../engines/spool/dead-letters.js'
import { isLeased, type TaskLock } from '../../engines/spool/locker.js'
import {
  ALL_NAMES,
  isPriorityDirectory,
  isTaskName,
  type NameRules,
  STATE_DIRECTORY,
} from '../../engines/spool/names.js'
import { neighboursOf } from '../../engines/spool/neighbours.js'
import type { Owner } from '../../engines/spool/permissions.js'
import { type FileDirectory, holdBelow, inDirectoryOf } from '../../engines/spool/priority-directory.js'
import { Records } from '../../engines/spool/records.js'
import { packetState } from '../../engines/spool/spool-file.js'
import { lstatSync, openSafely, unlinkSync } from '../../system/files/anchored-path.js'
import { listEntries } from '../../system/files/entries.js'
import { type Locks, readLocks } from '../../system/files/lock-table.js'
import { type Finding, REPAIRED } from './finding.js'

/** The spool under examination, and the rules that apply to it. */
export interface ExaminedSpool {
  /** The spool's real path, a byte string; while root is at work, a path that leads to the directory that root holds. */
  readonly spool: string
  /** The spool's real path, for people. */
  readonly shown: string
  /** The user that has to be able to use the spool. */
  readonly user: Owner
  /** Undefined: the rules are unknown. */
  readonly rules: NameRules | undefined
  /** A file that has been unchanged for this long has no writer; 0 means never. */
  readonly graceMs: number
  /** How long ids are kept; 0 means for ever. */
  readonly idTtlMs: number
  /** True if a daemon uses the spool, and settles what its workers leave. */
  readonly isInUse: boolean
  readonly records: Records
  readonly letters: DeadLetters
  readonly settler: Settler
  /** Called for each file that a check looks at. */
  passed(): void
  /** Returns the lock for repairs. It is only for them, because it may create files. */
  locker(): Promise<TaskLock>
}

type Looked = Pick<ExaminedSpool, 'spool' | 'passed'>

/** Deeper than any priority scheme. */
const MAX_DEPTH = 16

/** Removes a file, in the directory that its path leads to now. */
export function removeFile({ spool }: ExaminedSpool, path: string): void {
  inDirectoryOf(spool, path, directory => unlinkSync(toFsPath(`${directory}/${baseName(path)}`)))
}

/** Returns the repair for a file that should not be there: remove it. */
export function toBeRemoved(examined: ExaminedSpool, path: string): Pick<Finding, 'path' | 'fix' | 'repair'> {
  const fix = 'remove it: --repair does'
  if (statsOf(examined, path)?.isDirectory() === true) return { path, fix }
  const repair = () => {
    removeFile(examined, path)
    return REPAIRED
  }
  return { path, fix, repair }
}

export function statsOf({ spool }: Pick<ExaminedSpool, 'spool'>, path: string): Stats | undefined {
  if (path === '') return lstatSync(toFsPath(spool))
  const directory = heldBelow(spool, path.slice(0, Math.max(0, path.lastIndexOf('/'))))
  if (directory === undefined) return undefined
  try {
    return lstatSync(toFsPath(`${directory.path}/${baseName(path)}`))
  } finally {
    directory.release()
  }
}

/** Yields the entries of a directory below the spool; none if the directory is gone, or was exchanged for a link. */
export async function* entriesIn({ spool }: Pick<ExaminedSpool, 'spool'>, path: string) {
  const directory = heldBelow(spool, path)
  if (directory === undefined) return
  try {
    yield* listEntries(`${directory.path}/`)
  } finally {
    directory.release()
  }
}

function heldBelow(spool: string, path: string): FileDirectory | undefined {
  try {
    return holdBelow(spool, path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return undefined
    throw error
  }
}

/** Yields every file that may be a task, including files in priorities, whether or not a daemon scans them. */
export async function* tasksIn(examined: Looked, prefix = '', depth = 0): AsyncGenerator<Ref> {
  for await (const entry of entriesIn(examined, prefix.slice(0, -1))) {
    if (entry.isFile() && isTaskName(entry.name, ALL_NAMES)) {
      examined.passed()
      yield prefix + entry.name
    } else if (entry.isDirectory() && depth < MAX_DEPTH && isPriorityDirectory(entry.name))
      yield* tasksIn(examined, `${prefix}${entry.name}/`, depth + 1)
  }
}

/** Yields every file below one of our directories, by its relative path. Links are neither followed nor returned. */
export async function* filesIn(
  examined: Looked,
  room: string,
  prefix = '',
  depth = 0,
): AsyncGenerator<string> {
  if (prefix === '' && !isOurDirectory(examined, room)) return
  for await (const entry of entriesIn(examined, `${STATE_DIRECTORY}/${room}/${prefix}`.slice(0, -1))) {
    if (entry.isDirectory() && depth < MAX_DEPTH)
      yield* filesIn(examined, room, `${prefix}${entry.name}/`, depth + 1)
    else if (entry.isFile()) {
      examined.passed()
      yield prefix + entry.name
    }
  }
}

export function isOurDirectory(examined: Pick<ExaminedSpool, 'spool'>, room: string): boolean {
  return [STATE_DIRECTORY, `${STATE_DIRECTORY}/${room}`].every(
    path => statsOf(examined, path)?.isDirectory() === true,
  )
}

/** How often the checks look at each file: for its rights, for its own check, and as litter. */
const LOOKS_PER_TASK = 2
const LOOKS_PER_FILE = { records: 3, dead: 3 } as const

/** Returns about how often `passed` will be called: files come and go, and few of our own files are in deeper directories. */
export async function countLooks(examined: ExaminedSpool): Promise<number> {
  let looks = 0
  for await (const _task of tasksIn({ ...examined, passed() {} })) looks += LOOKS_PER_TASK
  for (const [room, each] of Object.entries(LOOKS_PER_FILE))
    if (isOurDirectory(examined, room))
      for await (const _entry of listEntries(`${examined.spool}/${STATE_DIRECTORY}/${room}`)) looks += each
  return looks
}

interface ExaminedSpoolOptions
  extends Pick<ExaminedSpool, 'rules' | 'graceMs' | 'idTtlMs' | 'passed'>,
    Omit<SettleOptions, 'spool'> {
  /** The user of the daemon; null means the owner of the directory. */
  readonly user: Owner | null
}

/** Opens a spool for examination. @param spool its real path */
export function openExaminedSpool(
  spool: string,
  options: ExaminedSpoolOptions,
): { readonly examined: ExaminedSpool; readonly user: Owner; readonly inUse: readonly Finding[] } {
  const { uid, gid } = lstatOf(spool)
  const user = options.user ?? { uid, gid }
  const bytes = toByteString(spool)
  const neighbours = neighboursOf(bytes)
  let locker: Promise<TaskLock> | undefined
  const examined: ExaminedSpool = {
    spool: bytes,
    shown: bytes,
    user,
    rules: options.rules,
    graceMs: options.graceMs,
    idTtlMs: options.idTtlMs,
    isInUse: neighbours.length > 0,
    passed: options.passed,
    records: new Records(bytes),
    letters: new DeadLetters(bytes),
    settler: new Settler({ ...options, spool: bytes }),
    locker: () => (locker ??= openSpool(spool).then(opened => opened.locker)),
  }
  const inUse = neighbours.map(({ pid, command, workers }) => ({
    kind: 'in-use' as const,
    path: '',
    meaning: `pid ${pid} (${command})${workers === 0 ? '' : ` with ${counted(workers, 'worker')}`} uses this spool, and settles the runs of its workers`,
    fix: '',
    isNote: true as const,
  }))
  return { examined, user, inUse }
}

export interface Mark {
  readonly state: number
  readonly mtimeMs: number
  readonly isHeld: boolean
}

/** Returns a task's state byte, time and lock; undefined if there is no readable packet. */
export function markOf({ spool }: ExaminedSpool, ref: Ref): Mark | undefined {
  const fd = tryOpen(`${spool}/${ref}`)
  if (fd === undefined) return undefined
  try {
    const stats = fstatSync(fd)
    const state = stats.isFile() ? packetState(fd) : undefined
    if (state === undefined) return undefined
    const isHeld = state !== 0 && (currentLocks().isHeld(stats.dev, stats.ino) || isLeased(spool, ref))
    return { state, mtimeMs: stats.mtimeMs, isHeld }
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
