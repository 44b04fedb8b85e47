import { Slices } from '../../base/each.js'
import { errnoOf } from '../../base/errors.js'
import { type Ref, toFsPath } from '../../base/task/ref.js'
import { ENTRY_DIRECTORY, ENTRY_FILE, UNTOLD } from '../../system/calls.js'
import { statusOf } from '../../system/files/anchored-path.js'
import { isSmall, listEntries, meetAll, meetAtOnce } from '../../system/files/entries.js'
import {
  directoryOf,
  isLocal,
  type Stamp,
  takeStampAsync,
  takeStampSync,
  UNKNOWN,
} from '../../system/files/stamps.js'
import {
  ALL_NAMES,
  hasUwsgiPrefix,
  isPriorityDirectory,
  isTaskName,
  type NameRules,
  STATE_DIRECTORY,
} from './names.js'
import { hasStateRoom, type StateRoom, stateRoom } from './state-directory.js'

/** The maximum depth of nested directories: deeper than any priority scheme, shallow enough for any stack. */
const MAX_DEPTH = 16

export interface ScanVisitor {
  /** Called for each name that may be a task. Returning false ends the scan. */
  task(ref: Ref): boolean
  /** Called for each file whose name is not that of a task. */
  other?(ref: Ref): void
  /** Called for each priority directory. Returning false skips it. */
  enters?(prefix: string): boolean
  /** Called before a directory is listed; the prefix is '' for the spool itself, `5/` for a priority. */
  directory?(prefix: string, stamp: Stamp): void
  /** Called after a directory was listed completely, or was found to be gone. */
  listed?(prefix: string, stamp: Stamp, entries: number): void
  /** Called for a priority directory that is not entered, because the spool is not ordered or the nesting too deep. */
  unvisited?(prefix: string): void
  /** Called for a directory of the spool that is neither a priority nor `.spoold`. */
  foreign?(prefix: string): void
  /** Called for a priority directory that could not be listed; for the spool itself, the scan throws instead. */
  failed(prefix: string, error: unknown): void
}

/** The state of a directory during a scan. */
export interface Listed {
  /** Taken before the listing. */
  readonly stamp: Stamp
  /** Infinity if it was not listed completely. */
  readonly entries: number
}

/**
 * Lists a spool as a stream, so memory does not grow with the directory. It reads only names and types: one system call
 * per two thousand entries. In an ordered spool it enters priority directories, as spooler_scandir does.
 *
 * @param isLocal the file system is local: small directories are listed synchronously, at a tenth of the cost
 * @param directories the prefixes of the directories to list, including the priorities below them
 * @throws the error of `opendir` if the spool itself cannot be listed
 */
export async function scanSpool(
  spool: string,
  rules: NameRules,
  visitor: ScanVisitor,
  isLocal = false,
  directories: Iterable<string> = [''],
): Promise<void> {
  const slices = new Slices()
  let entries = 0

  const below = [...directories].map(prefix => ({ prefix, depth: prefix.split('/').length - 1 }))

  /** @returns false to end the scan */
  function meet(name: string, told: number, prefix: string, depth: number): boolean {
    entries++
    const kind = told === UNTOLD && isNumber(name) ? kindAt(`${spool}/${prefix}${name}`) : told
    // an entry of unknown type may be a task: whoever claims it looks
    if (kind === ENTRY_FILE || kind === UNTOLD) {
      if (isTaskName(name, rules)) return visitor.task(prefix + name)
      visitor.other?.(prefix + name)
      return true
    }
    if (kind !== ENTRY_DIRECTORY || name === STATE_DIRECTORY) return true
    const lower = `${prefix}${name}/`
    if (!isPriorityDirectory(name)) prefix === '' && visitor.foreign?.(lower)
    else if (!rules.ordered || depth >= MAX_DEPTH) visitor.unvisited?.(lower)
    else if (visitor.enters?.(lower) !== false) below.push({ prefix: lower, depth: depth + 1 })
    return true
  }

  /** Avoids promises where possible: with thousands of small priorities, each promise would cost more than the listing. */
  function list(prefix: string, depth: number): boolean | Promise<boolean> {
    if (!isLocal) return listSlowly(prefix, depth, undefined)
    const path = directoryOf(spool, prefix)
    const stamp = takeStampSync(path)
    if (!isSmall(stamp)) return listSlowly(prefix, depth, stamp)
    visitor.directory?.(prefix, stamp)
    const before = entries
    if (!meetAtOnce(path, (name, kind) => meet(name, kind, prefix, depth))) return false
    visitor.listed?.(prefix, stamp, entries - before)
    return true
  }

  async function listSlowly(prefix: string, depth: number, known: Stamp | undefined): Promise<boolean> {
    const path = directoryOf(spool, prefix)
    const stamp = known ?? (await takeStampAsync(path))
    visitor.directory?.(prefix, stamp)
    const before = entries
    if (!(await meetAll(path, isLocal, (name, kind) => meet(name, kind, prefix, depth)))) return false
    visitor.listed?.(prefix, stamp, entries - before)
    return true
  }

  function failed(prefix: string, error: unknown): void {
    if (prefix === '') throw error
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') visitor.failed(prefix, error)
    else visitor.listed?.(prefix, UNKNOWN, 0)
  }

  for (let next = below.pop(); next !== undefined; next = below.pop()) {
    try {
      const listing = list(next.prefix, next.depth)
      if (!(listing instanceof Promise ? await listing : listing)) break
    } catch (error) {
      failed(next.prefix, error)
    }
    const rest = slices.rest()
    if (rest !== undefined) await rest
  }
}

/**
 * Lists all names that some daemon may run, in every priority, whatever the rules of the spool's own daemon. @throws as
 * `scanSpool`
 */
export async function scanAll(spool: string, visitor: ScanVisitor): Promise<void> {
  await scanSpool(spool, ALL_NAMES, visitor, await isLocal(spool).catch(() => false))
}

/** True if the name is all digits: priorities have such names, and tasks hardly ever. */
function isNumber(name: string): boolean {
  return isPriorityDirectory(name) && !hasUwsgiPrefix(name)
}

/** Returns the type of an entry that the listing does not tell. Few file systems leave it out. */
function kindAt(path: string): number {
  return statusOf(toFsPath(path))?.isDirectory === true ? ENTRY_DIRECTORY : UNTOLD
}

/** Yields the files below a directory of `.spoold`, by their paths in it, as byte strings; none if the directory is not there. */
export async function* filesInRoom(
  spool: string,
  room: StateRoom,
  prefix = '',
  depth = 0,
): AsyncGenerator<string> {
  if (depth === 0 && !hasStateRoom(spool, room)) return
  // `.spoold` is found again for each directory, because a listing may take longer than `.spoold` stays open
  for await (const entry of listEntries(`${stateRoom(spool, room)}/${prefix}`))
    if (entry.isDirectory() && depth < MAX_DEPTH)
      yield* filesInRoom(spool, room, `${prefix}${entry.name}/`, depth + 1)
    else if (entry.isFile()) yield prefix + entry.name
}
