import { fstatSync, type Stats } from 'node:fs'
import { errnoOf } from '../base/errors.js'
import { linkSync, lstatExactlySync, lstatSync, renameSync, unlinkSync } from './anchored-path.js'

/** A file that is open, and where it was when it was opened. */
interface OpenFile {
  readonly fd: number
  readonly fsPath: string | Buffer
}

/** Does its path still lead to the file? Somebody may have moved it, or put another in its place. */
export function isInPlace({ fd, fsPath }: OpenFile): boolean {
  const there = lstatExactlySync(fsPath)
  if (there === undefined) return false
  const { dev, ino } = fstatSync(fd, { bigint: true })
  return there.ino === ino && there.dev === dev
}

/** The times of FAT, and of ext4 with small inodes, are whole seconds. */
const COARSEST_CTIME_MS = 2000

/** A rename sets the ctime; so does the removal of another link, which may be long ago. @param sinceMs by the clock of its file system */
export function mayHaveMoved({ nlink, ctimeMs }: Stats, sinceMs: number): boolean {
  const isCoarse = ctimeMs % 1000 === 0
  return nlink > 1 || ctimeMs > sinceMs - (isCoarse ? COARSEST_CTIME_MS : 0)
}

/** As `isInPlace`; bigints cost more than the look itself, and few inodes need them. */
export function isStillThere(file: OpenFile, { dev, ino }: Pick<Stats, 'dev' | 'ino'>): boolean {
  if (!Number.isSafeInteger(ino)) return isInPlace(file)
  const there = lstatSync(file.fsPath)
  return there?.ino === ino && there.dev === dev
}

/**
 * Renames exactly the file that is held. A path may be led to another file in the very moment between a look and a
 * rename; so what was moved is looked at again, and given back when it is not the one.
 *
 * @param freeName makes a name for a file whose own was taken before it could be given back
 * @returns false when the path leads to another file, or to none
 */
export function moveExactly(file: OpenFile, to: string | Buffer, freeName: () => string): boolean {
  if (!isInPlace(file)) return false
  try {
    renameSync(file.fsPath, to)
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || isInPlace(file)) throw error
    return false
  }
  if (isInPlace({ ...file, fsPath: to })) return true
  giveBack(to, file.fsPath, freeName)
  return false
}

/** Puts a file back under its own name; when that is taken once more, under a new one, which loses nothing but the name. */
export function giveBack(from: string | Buffer, to: string | Buffer, freeName: () => string): void {
  try {
    linkSync(from, to)
    unlinkSync(from)
  } catch (error) {
    // a directory cannot be linked, and some file systems know no links
    renameSync(from, errnoOf(error) === 'EEXIST' ? beside(to, freeName()) : to)
  }
}

/** The path of another name in the same directory. */
export function beside(path: string | Buffer, name: string): string | Buffer {
  if (typeof path === 'string') return path.slice(0, path.lastIndexOf('/') + 1) + name
  return Buffer.concat([path.subarray(0, path.lastIndexOf('/') + 1), Buffer.from(name, 'latin1')])
}
