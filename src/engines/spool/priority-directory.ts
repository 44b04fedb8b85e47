import { errnoOf } from '../../base/errors.js'
import { type Ref, toFsPath } from '../../base/task/ref.js'
import { type Directory, holdDirectory, mkdirSync } from '../../system/files/anchored-path.js'
import { STATE_DIRECTORY } from './names.js'
import { findState } from './state-directory.js'

/** The open directory of a file in a spool. */
export interface FileDirectory extends Pick<Directory, 'release'> {
  /** The prefix of the file's path: a byte string without a trailing slash. */
  readonly path: string
  /** Whether this call created it, as a priority directory. */
  readonly isNew: boolean
}

/**
 * Holds the directory of a file: the spool itself, a priority, or a directory below `.spoold`.
 *
 * @param mayMake creates missing directories as uWSGI does, with mode 0777 minus the umask
 * @throws ENOENT, or ENOTDIR for anything that is not a directory, such as a symlink to one
 */
export function holdDirectoryOf(spool: string, ref: Ref, { mayMake = false } = {}): FileDirectory {
  const cut = ref.lastIndexOf('/')
  if (cut < 0) return { path: spool, isNew: false, release() {} }
  const prefix = ref.slice(0, cut)
  if (prefix.startsWith(`${STATE_DIRECTORY}/`)) {
    // `.spoold` belongs to us, and other users cannot replace anything in it
    const state = findState(spool) ?? `${spool}/${STATE_DIRECTORY}`
    return { path: state + prefix.slice(STATE_DIRECTORY.length), isNew: false, release() {} }
  }
  return holdBelow(spool, prefix, { mayMake })
}

/** Holds a directory below a spool, whoever owns it, without following symlinks. @param prefix '': the spool itself */
export function holdBelow(spool: string, prefix: string, { mayMake = false } = {}): FileDirectory {
  if (prefix === '') return { path: spool, isNew: false, release() {} }
  let above: Directory | undefined
  let isNew = false
  let name = spool
  try {
    for (const segment of prefix.split('/')) {
      name += `/${segment}`
      const next = enter(`${above?.path ?? spool}/${segment}`, name, mayMake)
      above?.release()
      above = next.directory
      isNew = next.isNew
    }
    const directory = above
    return { path: directory?.path ?? spool, isNew, release: () => directory?.release() }
  } catch (error) {
    above?.release()
    throw error
  }
}

function enter(path: string, name: string, mayMake: boolean): { directory: Directory; isNew: boolean } {
  for (let isNew = false; ; isNew = true)
    try {
      return { directory: holdDirectory(path, name), isNew }
    } catch (error) {
      if (!mayMake || isNew || errnoOf(error) !== 'ENOENT') throw error
      make(path)
    }
}

function make(path: string): void {
  try {
    mkdirSync(toFsPath(path))
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error // another process was faster
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
