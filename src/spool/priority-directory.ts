import { errnoOf } from '../base/errors.js'
import { type Directory, holdDirectory, mkdirSync } from '../files/anchored-path.js'
import { type Ref, toFsPath } from '../task/ref.js'
import { STATE_DIRECTORY } from './names.js'
import { findState } from './state-directory.js'

/** The directory that a file of a spool lies in, as it is now. */
export interface FileDirectory extends Pick<Directory, 'release'> {
  /** What its path begins with, a byte string without a slash at its end. */
  readonly path: string
  /** A priority directory that was made now. */
  readonly isNew: boolean
}

/**
 * Holds the directory that a file lies in: the spool itself, a priority, or one below `.spoold`.
 *
 * @param mayMake makes what is missing on the way as uWSGI does: 0777 less the umask
 * @throws ENOENT, or ENOTDIR for what is no directory, such as a link to one
 */
export function holdDirectoryOf(spool: string, ref: Ref, { mayMake = false } = {}): FileDirectory {
  const cut = ref.lastIndexOf('/')
  if (cut < 0) return { path: spool, isNew: false, release() {} }
  const prefix = ref.slice(0, cut)
  if (prefix.startsWith(`${STATE_DIRECTORY}/`)) {
    // all that is in there is ours, and nobody else may exchange it
    const state = findState(spool) ?? `${spool}/${STATE_DIRECTORY}`
    return { path: state + prefix.slice(STATE_DIRECTORY.length), isNew: false, release() {} }
  }
  return holdBelow(spool, prefix, { mayMake })
}

/** Holds a directory below a spool, of whomever: no name on its way is a link. @param prefix '': the spool itself */
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
    if (errnoOf(error) !== 'EEXIST') throw error // somebody else was quicker
  }
}

/** Calls a function with the path of the directory that a file lies in. It may not be used afterwards. */
export function inDirectoryOf<T>(spool: string, ref: Ref, act: (path: string) => T): T {
  const directory = holdDirectoryOf(spool, ref)
  try {
    return act(directory.path)
  } finally {
    directory.release()
  }
}
