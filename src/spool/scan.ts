import { opendir } from 'node:fs/promises'
import { errnoOf } from '../base/errors.js'
import { type Ref, toFsPath } from '../task/ref.js'
import { isPriorityDirectory, isTaskName, type NameRules, STATE_DIRECTORY } from './file-name.js'

/** Directories inside directories inside …: deeper than any priority scheme, shallow enough for every stack. */
const MAX_DEPTH = 16
/** Entries a system call: large enough that a million names take a second, small enough not to block the loop. */
const ENTRIES_A_READ = 2048

export interface ScanVisitor {
  /** A name that may be a task. False ends the scan. */
  task(ref: Ref): boolean
  /** A directory is about to be listed: '' for the spool itself, `5/` for a priority. */
  directory(prefix: string): void
  /** A priority directory that nobody enters, because the spool is not ordered. */
  unvisited(prefix: string): void
  /** A priority directory that could not be listed; the spool itself throws instead. */
  failed(prefix: string, error: unknown): void
}

export interface Scan {
  /** Entries met, of every kind. */
  readonly entries: number
  readonly tookMs: number
}

/**
 * Lists a spool by streaming: memory does not grow with the directory. Only names and types are looked at, so a scan
 * costs a system call per two thousand entries. When ordered, priority directories are entered, as spooler_scandir does.
 *
 * @throws the error of `opendir` when the spool itself cannot be listed
 */
export async function scanSpool(spool: string, rules: NameRules, visitor: ScanVisitor): Promise<Scan> {
  const startedAt = performance.now()
  let entries = 0

  async function list(prefix: string, depth: number): Promise<boolean> {
    visitor.directory(prefix)
    const below: string[] = []
    const directory = await opendir(toFsPath(spool + (prefix === '' ? '' : `/${prefix.slice(0, -1)}`)), {
      encoding: 'latin1' as BufferEncoding,
      bufferSize: ENTRIES_A_READ,
    })
    for await (const entry of directory) {
      entries++
      if (entry.isFile()) {
        if (isTaskName(entry.name, rules) && !visitor.task(prefix + entry.name)) return false
      } else if (entry.isDirectory() && entry.name !== STATE_DIRECTORY && isPriorityDirectory(entry.name)) {
        if (rules.ordered && depth < MAX_DEPTH) below.push(`${prefix}${entry.name}/`)
        else visitor.unvisited(`${prefix}${entry.name}/`)
      }
    }
    for (const lower of below)
      try {
        if (!(await list(lower, depth + 1))) return false
      } catch (error) {
        if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') visitor.failed(lower, error)
      }
    return true
  }

  await list('', 0)
  return { entries, tookMs: performance.now() - startedAt }
}
