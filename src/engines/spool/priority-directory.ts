import { readdirSync } from 'node:fs'
import { errnoOf, SpooldError } from '../../base/errors.js'
import { displayName, type Ref } from '../../base/task/ref.js'
import {
  chownHeld,
  type Directory,
  holdDirectory,
  nameOf,
  statusOf,
} from '../../system/files/anchored-path.js'
import { STATE_DIRECTORY } from './names.js'
import type { Owner } from './permissions.js'
import { findState, makeDirectory } from './state-directory.js'

/** The open directory of a file in a spool. */
export interface FileDirectory extends Pick<Directory, 'release'> {
  /** The prefix of the file's path: a byte string without a trailing slash. */
  readonly path: string
  /** True if this call created the directory, as a priority. */
  readonly isNew: boolean
}

interface HoldOptions {
  /** Creates missing directories as uWSGI does, with mode 0777 minus the umask. */
  readonly mayMake?: boolean
  /** The user for whom root stores. New directories become this user's, and those of anybody else are refused. */
  readonly owner?: Owner | undefined
}

/**
 * Holds the directory of a file: the spool itself, a priority, or a directory below `.spoold`.
 *
 * @throws ENOENT, or ENOTDIR for anything that is not a directory, such as a symlink to one
 */
export function holdDirectoryOf(spool: string, ref: Ref, options: HoldOptions = {}): FileDirectory {
  const prefix = ref.slice(0, Math.max(0, ref.lastIndexOf('/')))
  if (prefix.startsWith(`${STATE_DIRECTORY}/`)) {
    // `.spoold` belongs to us, and other users cannot replace anything in it
    const state = findState(spool) ?? `${spool}/${STATE_DIRECTORY}`
    return { path: state + prefix.slice(STATE_DIRECTORY.length), isNew: false, release() {} }
  }
  return holdBelow(spool, prefix, options)
}

/** Holds a directory below a spool, whoever owns it, without following symlinks. @param prefix '' for the spool itself */
export function holdBelow(spool: string, prefix: string, options: HoldOptions = {}): FileDirectory {
  if (prefix === '') return { path: spool, isNew: false, release() {} }
  const { directory, isNew } = descend(spool, prefix, options)
  return { path: directory.path, isNew, release: () => directory.release() }
}

/** @param shown the path of the spool for people, where `spool` is anchored */
function descend(spool: string, prefix: string, options: HoldOptions, shown = spool): Entered {
  let path = spool
  let name = shown
  let last: Entered | undefined
  for (const segment of prefix.split('/')) {
    name += `/${segment}`
    try {
      const next = enter(`${path}/${segment}`, name, options)
      path = next.directory.path
      last?.directory.release()
      last = next
    } catch (error) {
      last?.directory.release()
      throw error
    }
  }
  if (last === undefined) throw new Error('expected the name of a directory')
  return last
}

interface Entered {
  readonly directory: Directory
  readonly isNew: boolean
}

function enter(path: string, name: string, { mayMake = false, owner }: HoldOptions): Entered {
  for (let isNew = false; ; isNew = true)
    try {
      const directory = holdDirectory(path, name)
      if (owner !== undefined) ensureOwner(directory, name, owner)
      return { directory, isNew }
    } catch (error) {
      if (!mayMake || isNew || errnoOf(error) !== 'ENOENT') throw error
      makeDirectory(path)
    }
}

/**
 * Gives `owner` a directory that root has made, or refuses one of anybody else. Whoever has the spool may have exchanged the
 * directory meanwhile for any other one in the spool. An empty directory of root's is nothing that `owner` could not remove and
 * make anew; no other one is given away.
 */
function ensureOwner(directory: Directory, name: string, { uid, gid }: Owner): void {
  try {
    const found = directory.status.uid
    if (found === uid) return
    if (found === 0 && readdirSync(directory.path).length === 0) return chownHeld(directory, uid, gid)
    throw new SpooldError(
      'ENQUEUE_FAILED',
      `${nameOf(name)} belongs to uid ${found}, and root stores for uid ${uid}: run this as uid ${uid}, or give it the directory`,
      { details: { path: nameOf(name) } },
    )
  } catch (error) {
    directory.release()
    throw error
  }
}

/** Calls a function with the path of a file's directory. The path must not be used afterwards. */
export function inDirectoryOf<T>(spool: string, ref: Ref, act: (path: string) => T): T {
  const directory = holdDirectoryOf(spool, ref)
  try {
    return act(directory.path)
  } finally {
    directory.release()
  }
}

/**
 * The directories of the tasks that a worker claims: the spool and one priority at a time. They are held over many claims, so
 * that a task is found by its name alone, and nobody can exchange what lies above it.
 */
export class TaskDirectories {
  readonly #spool: string
  /** The spool's real path, as text. */
  readonly shown: string
  #top: Directory | undefined
  #priority: { readonly prefix: string; readonly held: Directory } | undefined

  /** @param spool its real path, a byte string */
  constructor(spool: string) {
    this.#spool = spool
    this.shown = displayName(spool)
  }

  /**
   * Returns the directory of a task, to be released by the caller.
   *
   * @throws ENOENT, or ENOTDIR for anything that is not a directory, such as a link to one
   */
  hold(ref: Ref): Directory {
    this.#top ??= holdDirectory(this.#spool)
    if (!ref.includes('/')) return this.#top.use()
    const prefix = ref.slice(0, ref.lastIndexOf('/'))
    if (this.#priority?.prefix !== prefix) {
      this.#leavePriority()
      const { directory: held } = descend(this.#top.path, prefix, {}, this.#spool)
      this.#priority = { prefix, held }
    }
    return this.#priority.held.use()
  }

  /**
   * Lets go of the priority, and of the spool if its path leads elsewhere by now; `hold` opens them again.
   *
   * @returns true if the path of the spool leads elsewhere
   */
  check(): boolean {
    this.#leavePriority()
    if (this.#top === undefined) return false
    const isThere = statusOf(this.#spool)?.isSame(this.#top.status) === true
    if (!isThere) this.release()
    return !isThere
  }

  /** Lets go of all directories but those that claims use. */
  release(): void {
    this.#leavePriority()
    this.#top?.release()
    this.#top = undefined
  }

  #leavePriority(): void {
    this.#priority?.held.release()
    this.#priority = undefined
  }
}
