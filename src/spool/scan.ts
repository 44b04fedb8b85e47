import type { Dirent } from 'node:fs'
import { errnoOf } from '../base/errors.js'
import { Slices } from '../base/slices.js'
import { entryBatches, isSmall, listAtOnce } from '../files/entries.js'
import { directoryOf, type Stamp, takeStampAsync, takeStampSync, UNKNOWN } from '../files/stamps.js'
import type { Ref } from '../task/ref.js'
import { isPriorityDirectory, isTaskName, type NameRules, STATE_DIRECTORY } from './names.js'

/** Directories inside directories inside …: deeper than any priority scheme, shallow enough for every stack. */
const MAX_DEPTH = 16

export interface ScanVisitor {
  /** A name that may be a task. False ends the scan. */
  task(ref: Ref): boolean
  /** A priority directory was met. False: it is not listed. */
  enters?(prefix: string): boolean
  /** A directory is about to be listed: '' for the spool itself, `5/` for a priority. */
  directory(prefix: string, stamp: Stamp): void
  /** It was listed, to its end or to where the scan ended. */
  listed(prefix: string, stamp: Stamp, entries: number): void
  /** A priority directory that nobody enters, because the spool is not ordered. */
  unvisited(prefix: string): void
  /** A priority directory that could not be listed; the spool itself throws instead. */
  failed(prefix: string, error: unknown): void
}

/** A directory, as a scan found it. */
export interface Listed {
  /** From before it was listed. */
  readonly stamp: Stamp
  /** Infinity when it was not listed to its end. */
  readonly entries: number
}

/**
 * Lists a spool by streaming: memory does not grow with the directory. Only names and types are looked at, so a scan
 * costs a system call per two thousand entries. When ordered, priority directories are entered, as spooler_scandir does.
 *
 * @param isLocal no network and no other process is asked: small directories are listed at once, at a tenth of the cost
 * @param directories the prefixes of those that are listed, with what lies below them and is entered
 * @throws the error of `opendir` when the spool itself cannot be listed
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

  /** @returns false: the scan ends */
  function meet(entry: Dirent, prefix: string, depth: number): boolean {
    entries++
    if (entry.isFile()) return !isTaskName(entry.name, rules) || visitor.task(prefix + entry.name)
    if (!entry.isDirectory() || entry.name === STATE_DIRECTORY || !isPriorityDirectory(entry.name))
      return true
    const lower = `${prefix}${entry.name}/`
    if (!rules.ordered || depth >= MAX_DEPTH) visitor.unvisited(lower)
    else if (visitor.enters?.(lower) !== false) below.push({ prefix: lower, depth: depth + 1 })
    return true
  }

  /** Without a promise, where there is nothing to wait for: of thousands of priorities each would cost more than its listing. */
  function list(prefix: string, depth: number): boolean | Promise<boolean> {
    if (!isLocal) return listSlowly(prefix, depth, undefined)
    const path = directoryOf(spool, prefix)
    const stamp = takeStampSync(path)
    if (!isSmall(stamp)) return listSlowly(prefix, depth, stamp)
    visitor.directory(prefix, stamp)
    const before = entries
    for (const entry of listAtOnce(path)) if (!meet(entry, prefix, depth)) return false
    visitor.listed(prefix, stamp, entries - before)
    return true
  }

  async function listSlowly(prefix: string, depth: number, known: Stamp | undefined): Promise<boolean> {
    const path = directoryOf(spool, prefix)
    const stamp = known ?? (await takeStampAsync(path))
    visitor.directory(prefix, stamp)
    const before = entries
    for await (const batch of entryBatches(path, isLocal))
      for (const entry of batch) if (!meet(entry, prefix, depth)) return false
    visitor.listed(prefix, stamp, entries - before)
    return true
  }

  function failed(prefix: string, error: unknown): void {
    if (prefix === '') throw error
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') visitor.failed(prefix, error)
    else visitor.listed(prefix, UNKNOWN, 0)
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
