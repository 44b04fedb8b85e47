import { errnoOf } from '../../base/errors.js'
import { COARSEST_TIME_MS } from '../../base/own-clock.js'
import type { FileStatus } from '../calls.js'
import { systemCalls } from '../libc.js'
import { named, type Place } from './anchored-path.js'

/** An open file, and where it was opened. */
interface OpenFile extends Place {
  readonly fd: number
}

/** Returns true if the file is still in its place: another process may have moved or replaced it. */
export function isInPlace(file: OpenFile): boolean {
  return isStillThere(file, systemCalls().status(file.fd))
}

/**
 * Returns true if the file may have been moved since then. A rename sets the ctime, as does the removal of another link,
 * possibly long ago. A file that has several links may always have been moved.
 *
 * @param sinceMs epoch ms on the file system's clock
 */
export function mayHaveMoved({ links, ctimeMs }: FileStatus, sinceMs: number): boolean {
  const isCoarse = ctimeMs % 1000 === 0
  return links > 1 || ctimeMs > sinceMs - (isCoarse ? COARSEST_TIME_MS : 0)
}

/** Returns true if the name still leads to the file that has this status. */
export function isStillThere({ directory, name }: Place, held: FileStatus): boolean {
  try {
    return systemCalls().statusAt(directory, name)?.isSame(held) === true
  } catch (error) {
    throw named(error)
  }
}

/**
 * Renames exactly the file that is held open. Another process may replace the file at its path between the check and the
 * rename; so the moved file is checked again, and moved back if it is the wrong one.
 *
 * @param freeName makes a name for a file that cannot be moved back because its own name has been taken meanwhile
 * @returns false if the path leads to another file, or to none
 */
export function moveExactly(file: OpenFile, to: Place, freeName: () => string): boolean {
  const held = systemCalls().status(file.fd)
  if (!isStillThere(file, held)) return false
  try {
    systemCalls().renameat(file.directory, file.name, to.directory, to.name)
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || isStillThere(file, held)) throw named(error)
    return false
  }
  if (isStillThere(to, held)) return true
  giveBack(to, file, freeName)
  return false
}

/** Moves a file back to its own name or, if that has been taken again, to a new one: only the name is lost. */
export function giveBack(from: Place, to: Place, freeName: () => string): void {
  const { renameFreely, renameat } = systemCalls()
  try {
    renameFreely(from.directory, from.name, to.directory, to.name)
  } catch (error) {
    // some file systems have neither a rename that overwrites nothing nor hard links
    const name = errnoOf(error) === 'EEXIST' ? beside(to, freeName()).name : to.name
    try {
      renameat(from.directory, from.name, to.directory, name)
    } catch (last) {
      throw named(last)
    }
  }
}

/** Returns the place of another name in the same directory. */
export function beside({ directory, name }: Place, other: string): Place {
  return { directory, name: name.slice(0, name.lastIndexOf('/') + 1) + other }
}
