import fs, { constants } from 'node:fs'
import { displayName, toFsPath } from '../../base/task/ref.js'

/**
 * The only module that changes the files of a spool by path. Two rules hold for every path below a spool:
 *
 * - The last component is never followed: files are opened with O_NOFOLLOW, or created with O_EXCL.
 * - Any user who may write to the spool may replace a directory in the path (a priority or `.spoold`) with a symlink. So
 *   the directory is opened first, without following links, and the path starts from there: `/proc/self/fd/N/name`.
 *
 * A task at the top of the spool keeps its plain path: users who can write to the spool cannot replace any directory in
 * it, and the kernel resolves a short path as fast as an anchored one. A process with more rights than the spool's owner
 * never gets here (privileges.ts): it becomes that owner first.
 */

/** Linux: opens a directory without needing the right to list it. Node has no constant for it. */
const O_PATH = process.platform === 'linux' ? 0o10000000 : 0
const DIRECTORY = constants.O_DIRECTORY | constants.O_NOFOLLOW | O_PATH
/** Without /proc, an lstat check has to do. */
const HAS_PROC = fs.existsSync('/proc/self/fd')

/** A directory that stays the same, whatever happens to its name. */
export interface Directory {
  /** The prefix of paths below it: a byte string without a trailing slash. */
  readonly path: string
  readonly stats: fs.BigIntStats
  /** After this, `path` must not be used. */
  release(): void
}

interface Held {
  readonly fd: number
  readonly path: string
  readonly stats: fs.BigIntStats
  /** The name under which it was opened, for people. */
  readonly name: string
  users: number
}

/** Keyed by name. Concurrent users of one directory share its descriptor. */
const held = new Map<string, Held>()
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
  const shared = known !== undefined && isNamed(path, known) ? known : open(path, name)
  shared.users++
  let isOver = false
  return {
    path: shared.path,
    stats: shared.stats,
    release() {
      if (isOver) return
      isOver = true
      if (--shared.users === 0) close(shared)
    },
  }
}

function isNamed(path: string, { stats }: Held): boolean {
  const now = fs.lstatSync(toFsPath(path), { bigint: true, throwIfNoEntry: false })
  return now?.ino === stats.ino && now.dev === stats.dev
}

function open(path: string, name: string): Held {
  const fd = openDirectory(path)
  const stats = statsOf(fd)
  const opened = { fd, path: HAS_PROC ? `/proc/self/fd/${fd}` : path, stats, name, users: 0 }
  held.set(name, opened)
  names.set(fd, name)
  return opened
}

function statsOf(fd: number): fs.BigIntStats {
  try {
    return fs.fstatSync(fd, { bigint: true })
  } catch (error) {
    fs.closeSync(fd)
    throw error
  }
}

function openDirectory(path: string): number {
  try {
    return fs.openSync(toFsPath(path), DIRECTORY)
  } catch (error) {
    throw named(error)
  }
}

function close(directory: Held): void {
  if (held.get(directory.name) === directory) held.delete(directory.name)
  names.delete(directory.fd)
  fs.closeSync(directory.fd)
}

/** The path to show to people. @param path a byte string, anchored or not */
export function nameOf(path: string): string {
  return displayName(path.replace(ANCHOR, (anchor, fd) => names.get(Number(fd)) ?? anchor))
}

const ANCHOR = /\/proc\/self\/fd\/(\d+)/g

/** An error of node:fs, with anchored paths replaced by those to show to people. */
export function named(error: unknown): unknown {
  if (!(error instanceof Error) || !error.message.includes('/proc/self/fd/')) return error
  error.message = error.message.replace(ANCHOR, (anchor, fd) => {
    const name = names.get(Number(fd))
    return name === undefined ? anchor : displayName(name)
  })
  return error
}

/** The same function; its errors name paths to show to people. */
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

// The next two are called for every task, so they do not use `plainly`: its rest arguments cost half a microsecond.

/** Opens an existing file or creates a new one. The last component is not followed; nothing is overwritten. */
export function openSync(path: Path, flags: number, mode?: number): number {
  try {
    return fs.openSync(path, flags | constants.O_NOFOLLOW, mode)
  } catch (error) {
    throw named(error)
  }
}

export function unlinkSync(path: Path): void {
  try {
    fs.unlinkSync(path)
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
export const renameSync = plainly((from: Path, to: Path) => fs.renameSync(from, to))
export const linkSync = plainly((from: Path, to: Path) => fs.linkSync(from, to))
export const symlinkSync = plainly((text: Path, path: Path) => fs.symlinkSync(text, path))
export const readlinkSync = plainly((path: Path) => fs.readlinkSync(path, 'latin1'))
export const readFileSync = plainly((path: Path) => {
  const fd = fs.openSync(path, READ)
  try {
    return fs.readFileSync(fd, 'utf8')
  } finally {
    fs.closeSync(fd)
  }
})
export const utimesSync = plainly((path: Path, atime: number, mtime: number) =>
  fs.utimesSync(path, atime, mtime),
)
export const chmodSync = plainly((path: Path, mode: number) => fs.chmodSync(path, mode))
export const lstatSync = plainly((path: Path) => fs.lstatSync(path, { throwIfNoEntry: false }))
/** With exact inode and device numbers: as doubles, large neighbouring inode numbers would be equal. */
export const lstatExactlySync = plainly((path: Path) =>
  fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }),
)
