import { fstatSync, type Stats } from 'node:fs'
import { errnoOf } from '../../base/errors.js'
import { linkSync, lstatExactlySync, lstatSync, renameSync, unlinkSync } from './anchored-path.js'

/** An open file, and the path by which it was opened. */
interface OpenFile {
  readonly fd: number
  readonly fsPath: string | Buffer
}

/** Does the path still lead to the file? Another process may have moved or replaced it. */
export function isInPlace({ fd, fsPath }: OpenFile): boolean {
  const there = lstatExactlySync(fsPath)
  if (there === undefined) return false
  const { dev, ino } = fstatSync(fd, { bigint: true })
  return there.ino === ino && there.dev === dev
}

/** FAT, and ext4 with small inodes, keep times in whole seconds; FAT's resolution is 2 s. */
const COARSEST_CTIME_MS = 2000

/**
 * A rename sets the ctime, as does the removal of another link, possibly long ago.
 *
 * @param sinceMs epoch ms on the file system's clock
 */
export function mayHaveMoved({ nlink, ctimeMs }: Stats, sinceMs: number): boolean {
  const isCoarse = ctimeMs % 1000 === 0
  return nlink > 1 || ctimeMs > sinceMs - (isCoarse ? COARSEST_CTIME_MS : 0)
}

/** As `isInPlace`, but without bigints for most inodes: they cost more than the lstat itself. */
export function isStillThere(file: OpenFile, { dev, ino }: Pick<Stats, 'dev' | 'ino'>): boolean {
  if (!Number.isSafeInteger(ino)) return isInPlace(file)
  const there = lstatSync(file.fsPath)
  return there?.ino === ino && there.dev === dev
}

/**
 * Renames exactly the file that is held open. Another process may replace the file at its path between the check and the
 * rename; so the moved file is checked again, and moved back if it is the wrong one.
 *
 * @param freeName makes a name for a file that cannot be moved back because its own name has been taken meanwhile
 * @returns false if the path leads to another file, or to none
 */
export function moveExactly(file: OpenFile, to: string | Buffer, freeName: () => string): boolean {
  const held = fstatSync(file.fd)
  if (!isStillThere(file, held)) return false
  try {
    renameSync(file.fsPath, to)
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || isStillThere(file, held)) throw error
    return false
  }
  if (isStillThere({ fd: file.fd, fsPath: to }, held)) return true
  giveBack(to, file.fsPath, freeName)
  return false
}

/** Moves a file back to its own name or, if that has been taken again, to a new one: only the name is lost. */
export function giveBack(from: string | Buffer, to: string | Buffer, freeName: () => string): void {
  try {
    linkSync(from, to)
    unlinkSync(from)
  } catch (error) {
    // directories cannot be hard-linked, and some file systems have no hard links
    renameSync(from, errnoOf(error) === 'EEXIST' ? beside(to, freeName()) : to)
  }
}

/** The path of another name in the same directory. */
export function beside(path: string | Buffer, name: string): string | Buffer {
  if (typeof path === 'string') return path.slice(0, path.lastIndexOf('/') + 1) + name
  return Buffer.concat([path.subarray(0, path.lastIndexOf('/') + 1), Buffer.from(name, 'latin1')])
}
