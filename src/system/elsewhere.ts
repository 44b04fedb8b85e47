import fs, { constants } from 'node:fs'
import { toFsPath } from '../base/task/ref.js'
import {
  checkDescriptor,
  checkDirectory,
  checkRun,
  checkTransfer,
  FileStatus,
  type Name,
  O_PATH,
  pathBelow,
  refusedName,
  type SystemCalls,
  shownBelow,
  systemError,
} from './calls.js'

/**
 * The system calls over node:fs, for where libc cannot be called. A name below a directory is reached through /proc. What
 * node:fs cannot do at all fails with ENOSYS, record locks among it.
 */

const ENOENT = -2
const ENOTDIR = -20
const EXDEV = -18
const ENOSYS = -38
const ELOOP = -40

/** True if /proc is mounted. Without it, a name below a directory is reached by the path under which the directory was opened. */
const HAS_PROC = fs.existsSync('/proc/self/fd')
const paths = new Map<number, string>()

function reach(directory: number, name: Name, syscall: string): string | Buffer {
  return toFsPath(pathTo(directory, name, syscall))
}

/** Returns the path of a name below a directory, a byte string. */
function pathTo(directory: number, name: Name, syscall: string): string {
  checkDirectory(directory)
  if (typeof name !== 'string' && !(name instanceof Uint8Array)) throw refusedName(name)
  if (name.length === 0) throw systemError(ENOENT, syscall, '')
  const path = pathBelow(directory, name)
  for (let i = 0; i < path.length; i++) if (path.charCodeAt(i) > 0xff) throw refusedName(name)
  return HAS_PROC ? path : path.replace(/^\/proc\/self\/fd\/(\d+)/, (all, fd) => paths.get(Number(fd)) ?? all)
}

/** @returns the negative number of an error of node:fs */
function numberOf(error: unknown): number {
  if (error instanceof Error && 'errno' in error && typeof error.errno === 'number') return error.errno
  throw error
}

function fromBig(stats: fs.BigIntStats): FileStatus {
  // glibc's major() and minor()
  const device = Number(BigInt.asUintN(32, stats.dev))
  const msOf = (ns: bigint) => {
    const rest = ((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n
    return Number((ns - rest) / 1_000_000_000n) * 1000 + Number(rest) / 1e6
  }
  return new FileStatus(
    Number(stats.mode),
    Number(stats.nlink),
    Number(stats.uid),
    Number(stats.gid),
    Number(stats.size),
    msOf(stats.mtimeNs),
    msOf(stats.ctimeNs),
    Number(BigInt.asUintN(32, stats.ino >> 32n)),
    Number(BigInt.asUintN(32, stats.ino)),
    (device >>> 8) & 0xfff,
    (device & 0xff) | ((device >>> 12) & 0xfff00),
  )
}

function openat(directory: number, name: Name, flags: number, mode?: number): number {
  const path = pathTo(directory, name, 'open')
  const fd = fs.openSync(toFsPath(path), flags, mode)
  if (!HAS_PROC && (flags & constants.O_DIRECTORY) !== 0) paths.set(fd, path)
  return fd
}

function close(fd: number): void {
  paths.delete(fd)
  fs.closeSync(checkDescriptor(fd))
}

function statusAt(directory: number, name: Name): FileStatus | undefined {
  try {
    return fromBig(fs.lstatSync(reach(directory, name, 'lstat'), { bigint: true }))
  } catch (error) {
    if (numberOf(error) !== ENOENT) throw error
    return undefined
  }
}

function unlinkat(directory: number, name: Name): void {
  fs.unlinkSync(reach(directory, name, 'unlink'))
}

function linkat(directory: number, name: Name, toDirectory: number, to: Name): void {
  fs.linkSync(reach(directory, name, 'link'), reach(toDirectory, to, 'link'))
}

function tried<T extends number>(call: () => T): number {
  try {
    return call()
  } catch (error) {
    return numberOf(error)
  }
}

function missing(syscall: string): never {
  throw systemError(ENOSYS, syscall)
}

export const nodeCalls: SystemCalls = {
  isLibc: false,
  openat,
  tryOpenat: (...args) => tried(() => openat(...args)),
  openBeneath: (directory, path, flags) => openByComponents(nodeCalls, directory, path, flags),
  close,
  closeRun(first, last) {
    checkRun(first, last)
    for (let fd = first; fd <= last; fd++) close(fd)
  },
  keepFromChildren() {}, // Node's own descriptors, and so those of node:fs, are close-on-exec
  exit: () => missing('_exit'),
  tryLock: () => missing('fcntl'),
  isLocked: () => missing('fcntl'),
  unlock: () => missing('fcntl'),
  status: fd => fromBig(fs.fstatSync(checkDescriptor(fd), { bigint: true })),
  statusAt,
  pread(fd, into, bytes, position) {
    checkTransfer(fd, into, bytes, position)
    return fs.readSync(fd, into, 0, bytes, position)
  },
  pwrite(fd, from, bytes, position) {
    checkTransfer(fd, from, bytes, position)
    return fs.writeSync(fd, from, 0, bytes, position)
  },
  getdents: () => missing('scandir'),
  getdentsAside: async () => missing('scandir'),
  unlinkat,
  tryUnlinkat: (directory, name) =>
    tried(() => {
      unlinkat(directory, name)
      return 0
    }),
  mkdirat: (directory, name, mode) => void fs.mkdirSync(reach(directory, name, 'mkdir'), mode),
  linkat,
  renameat: (directory, name, toDirectory, to) =>
    fs.renameSync(reach(directory, name, 'rename'), reach(toDirectory, to, 'rename')),
  renameFreely(directory, name, toDirectory, to) {
    linkat(directory, name, toDirectory, to)
    unlinkat(directory, name)
  },
  readlinkat: (directory, name) => fs.readlinkSync(reach(directory, name, 'readlink'), 'latin1'),
  mkfifo: () => missing('mkfifo'),
  memoryFile: () => missing('memfd_create'),
  mapShared: () => missing('mmap'),
  pipe: () => missing('pipe'),
  sendDatagram: () => missing('send'),
  socket: () => missing('socket'),
  bindat: () => missing('bind'),
  socketPair: () => missing('socketpair'),
  sendMessage: () => missing('sendmsg'),
  receiveMessage: () => missing('recvmsg'),
  letWait: () => missing('fcntl'),
  waitpid: () => missing('waitpid'),
}

/**
 * Opens a path one component after the other, none of which may be a link, as openat2 does with RESOLVE_BENEATH and
 * RESOLVE_NO_SYMLINKS. Unlike openat2, this function takes no `..` at all.
 */
export function openByComponents(calls: SystemCalls, directory: number, path: Name, flags: number): number {
  const text = typeof path === 'string' ? path : Buffer.from(path).toString('latin1')
  const segments = text.split('/').filter(segment => segment !== '' && segment !== '.')
  if (text.startsWith('/') || segments.includes('..'))
    throw systemError(EXDEV, 'open', shownBelow(directory, path))
  if (text === '') throw systemError(ENOENT, 'open', shownBelow(directory, path))
  const last = segments.pop() ?? '.'
  const mustBeDirectory = text.endsWith('/') ? constants.O_DIRECTORY : 0
  let [at, isOurs] = [directory, false]
  try {
    for (const segment of segments) {
      const next = enter(calls, at, segment, constants.O_RDONLY | constants.O_DIRECTORY | O_PATH)
      if (isOurs) calls.close(at)
      ;[at, isOurs] = [next, true]
    }
    return enter(calls, at, last, flags | mustBeDirectory)
  } finally {
    if (isOurs) calls.close(at)
  }
}

function enter(calls: SystemCalls, directory: number, segment: string, flags: number): number {
  const fd = calls.tryOpenat(directory, segment, flags | constants.O_NOFOLLOW)
  if (fd >= 0) return fd
  const isLink = fd === ENOTDIR && calls.statusAt(directory, segment)?.isLink === true
  throw systemError(isLink ? ELOOP : fd, 'open', shownBelow(directory, segment))
}
