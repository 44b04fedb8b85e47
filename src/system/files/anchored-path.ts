import fs, { constants } from 'node:fs'
import { displayName, toFsPath } from '../../base/task/ref.js'
import { CWD, type FileStatus, O_PATH, pathBelow } from '../calls.js'
import { descriptorPath } from '../descriptor-path.js'
import { loadedCalls as calls } from '../libc.js'

/**
 * The only module that changes the files of a spool by path. Two rules hold for every path below a spool:
 *
 * - The last component is never followed: files are opened with O_NOFOLLOW, or created with O_EXCL.
 * - Any user who may write to the spool may replace a directory in the path (a priority or `.spoold`) with a symlink. So
 *   the directory is opened first, without following links, and the path starts from there: `/proc/self/fd/N/name`.
 *   Where libc can be called, such a path is only how the place is written down: the name is looked up below the
 *   descriptor, which is faster by far.
 *
 * A process with more rights than the spool's owner never gets here (privileges.ts): it becomes that owner first.
 */

const DIRECTORY = constants.O_DIRECTORY | O_PATH
/** True if /proc is mounted. Without it, an lstat check has to do. */
const HAS_PROC = fs.existsSync('/proc/self/fd')

/** Where a file is: a name below a directory that is held, or a path below the working directory (CWD). */
export interface Place {
  readonly directory: number
  /** A byte string. */
  readonly name: string
}

const BELOW = /^\/proc\/self\/fd\/(\d+)\/(.+)$/s

/** @param path a byte string, anchored or not, or its bytes */
export function placeOf(path: Path): Place {
  const text = typeof path === 'string' ? path : path.toString('latin1')
  const [, fd, name] = text.startsWith('/proc/self/fd/') ? (BELOW.exec(text) ?? []) : []
  return fd === undefined || name === undefined
    ? { directory: CWD, name: text }
    : { directory: Number(fd), name }
}

/** Returns a place as a path: for functions that take nothing else, and for a change that is made seldom. */
export function pathOf({ directory, name }: Place): Path {
  return toFsPath(pathBelow(directory, name))
}

/** A directory that stays the same, whatever happens to its name. Its users share it; the last one closes it. */
export class Directory {
  /** The descriptor below which names are looked up. */
  readonly fd: number
  /** The prefix of paths below it: a byte string without a trailing slash. */
  readonly path: string
  readonly status: FileStatus
  /** The name under which it was opened, for people. */
  readonly #name: string
  #users = 1

  constructor(path: string, name: string) {
    this.fd = openSync(path, DIRECTORY)
    this.path = HAS_PROC ? descriptorPath(this.fd) : path
    this.status = statusOfOpen(this.fd)
    this.#name = name
    held.set(name, this)
    names.set(this.fd, unanchored(name))
  }

  /** Adds a user. */
  use(): this {
    this.#users++
    return this
  }

  /** Removes a user. To be called once for each user, who must not use the path afterwards. */
  release(): void {
    if (--this.#users > 0) return
    if (held.get(this.#name) === this) held.delete(this.#name)
    names.delete(this.fd)
    calls().close(this.fd)
  }
}

/** Keyed by name. */
const held = new Map<string, Directory>()
/** Keyed by descriptor. */
const names = new Map<number, string>()

/**
 * Holds the directory that this path leads to now.
 *
 * @param path a byte string, anchored or not
 * @param name the same, for people
 * @throws ENOTDIR, also for a symlink to a directory
 */
export function holdDirectory(path: string, name = path): Directory {
  const known = held.get(name)
  const isStill = known !== undefined && statusOf(path)?.isSame(known.status) === true
  return isStill ? known.use() : new Directory(path, name)
}

/** Holds the directory that is open at `fd`, which may be closed afterwards. @param name its path, a byte string */
export function holdOpen(fd: number, name: string): Directory {
  return holdDirectory(HAS_PROC ? `${descriptorPath(fd)}/.` : name, name)
}

/** Changes the owner of a directory that is held, whatever its name leads to now. */
export function chownHeld({ path }: Directory, uid: number, gid: number): void {
  fs.chownSync(path, uid, gid)
}

function statusOfOpen(fd: number): FileStatus {
  try {
    return calls().status(fd)
  } catch (error) {
    calls().close(fd)
    throw error
  }
}

/** Returns the path to show to people. @param path a byte string, anchored or not */
export function nameOf(path: string): string {
  return displayName(unanchored(path))
}

function unanchored(path: string): string {
  return path.replace(ANCHOR, (anchor, fd) => names.get(Number(fd)) ?? anchor)
}

const ANCHOR = /\/proc\/self\/fd\/(\d+)/g

/** Returns an error of node:fs, with anchored paths replaced by those to show to people. */
export function named(error: unknown): unknown {
  if (!(error instanceof Error) || !error.message.includes('/proc/self/fd/')) return error
  error.message = error.message.replace(ANCHOR, (anchor, fd) => {
    const name = names.get(Number(fd))
    return name === undefined ? anchor : displayName(name)
  })
  return error
}

/** Returns the same function, but its errors name paths to show to people. */
function plainly<Args extends unknown[], Result>(call: (...args: Args) => Result): typeof call {
  return (...args) => {
    try {
      return call(...args)
    } catch (error) {
      throw named(error)
    }
  }
}

type Path = string | Buffer
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

// The next two are called often, so they do not use `plainly`: its rest arguments cost half a microsecond.

/** Opens an existing file or creates a new one. The last component is not followed; nothing is overwritten. */
export function openSync(path: Path, flags: number, mode?: number): number {
  const { directory, name } = placeOf(path)
  try {
    return calls().openat(directory, name, flags | constants.O_NOFOLLOW, mode)
  } catch (error) {
    throw named(error)
  }
}

export function unlinkSync(path: Path): void {
  const { directory, name } = placeOf(path)
  try {
    calls().unlinkat(directory, name)
  } catch (error) {
    throw named(error)
  }
}

/** Creates a file, which must not exist yet, and writes all of it. */
export const createFileSync = plainly((path: Path, text: string, flush: boolean) =>
  fs.writeFileSync(path, text, { mode: 0o600, flush, flag: 'wx' }),
)
export const mkdirSync = plainly((path: Path, mode?: number) => void fs.mkdirSync(path, { mode }))
export const rmdirSync = plainly((path: Path) => fs.rmdirSync(path))
export const renameSync = plainly((from: Path, to: Path) => {
  const [source, target] = [placeOf(from), placeOf(to)]
  calls().renameat(source.directory, source.name, target.directory, target.name)
})
export const symlinkSync = plainly((text: Path, path: Path) => fs.symlinkSync(text, path))
export const readdirSync = plainly((path: Path) => fs.readdirSync(path))
export const readlinkSync = plainly((path: Path) => fs.readlinkSync(path, 'latin1'))
export const readFileSync = plainly((path: Path) => {
  const fd = fs.openSync(path, READ)
  try {
    return textOf(fd)
  } finally {
    fs.closeSync(fd)
  }
})

/** The largest file that is read: larger than any of ours (records, dead letters, notes). */
const MOST_BYTES = 16 * 1024 * 1024

/** Returns the text of an open file. @throws Error, which is none of the system, for a file that is too large to be ours */
export function textOf(fd: number): string {
  if (fs.fstatSync(fd).size > MOST_BYTES) throw new Error(`it is larger than ${MOST_BYTES} bytes`)
  return fs.readFileSync(fd, 'utf8')
}

export const utimesSync = plainly((path: Path, atime: number, mtime: number) =>
  fs.lutimesSync(path, atime, mtime),
)
export const chmodSync = plainly((path: Path, mode: number) => fs.chmodSync(path, mode))
/** The status of the name itself, also if it is a link, with its exact inode and device; undefined if there is none. */
export const statusOf = plainly((path: Path): FileStatus | undefined => {
  const { directory, name } = placeOf(path)
  return calls().statusAt(directory, name)
})
export const lstatSync = plainly((path: Path) => fs.lstatSync(path, { throwIfNoEntry: false }))

// O_NONBLOCK: a FIFO under a task's name must not block us. O_NOFOLLOW: a symlink must not lead us out of the spool.
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Opens a task's path, safely whatever is there. @param path a byte string */
export function openSafely(path: string, access: number): number {
  return openSync(toFsPath(path), access | SAFE)
}
