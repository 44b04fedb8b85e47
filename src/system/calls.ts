import { constants } from 'node:os'
import { getSystemErrorMap } from 'node:util'
import { displayName } from '../base/task/ref.js'
import { descriptorPath } from './descriptor-path.js'

/**
 * The system calls that spoold makes for itself: over libc (libc.ts), or over node:fs where libc cannot be called
 * (elsewhere.ts).
 *
 * Names are bytes: a string has one character per byte. Neither a string nor a Buffer contains NUL. A name is looked up
 * below `directory`, a descriptor, or below the working directory (`CWD`). Errors are those of node:fs; functions that begin
 * with `try` return the error's number instead, which is negative, because their callers expect it. Descriptors are
 * close-on-exec.
 */
export interface SystemCalls {
  /** True if record locks, and all else that node:fs lacks, can be had. */
  readonly isLibc: boolean

  openat(directory: number, name: Name, flags: number, mode?: number): number
  tryOpenat(directory: number, name: Name, flags: number, mode?: number): number
  /**
   * Opens a path below `directory`, following no link, and never leaving it.
   *
   * @throws ELOOP for a link, EXDEV or ELOOP for a path that leads out
   */
  openBeneath(directory: number, path: Name, flags: number): number
  close(fd: number): void
  /** Closes a run of descriptors. Each number in it must be the caller's own: any other may be one of Node's. */
  closeRun(first: number, last: number): void
  /** No process that is started from now on inherits a descriptor from this number on. */
  keepFromChildren(first: number): void
  /** Ends the process at once: nothing is written, closed or waited for. */
  exit(code: number): void

  /**
   * An open-file-description lock on the whole file, without waiting. It conflicts with uWSGI's POSIX record locks in both
   * directions, and lasts until the last copy of the descriptor is closed, whatever other descriptors the process closes.
   *
   * @returns false if somebody else has locked any part of the file
   */
  tryLock(fd: number): boolean
  /** Returns true if somebody else has locked any part of the file. Takes no lock, not even for a moment. */
  isLocked(fd: number): boolean
  unlock(fd: number): void

  status(fd: number): FileStatus
  /** Returns the status of the name itself, also if it is a link; undefined if there is no such name. */
  statusAt(directory: number, name: Name): FileStatus | undefined
  /** @returns how many bytes were read @param bytes at most the Buffer's length */
  pread(fd: number, into: Uint8Array, bytes: number, position: number): number
  pwrite(fd: number, from: Uint8Array, bytes: number, position: number): number
  /**
   * The next entries of an open directory, as the kernel writes them (struct linux_dirent64); see `eachEntry`.
   *
   * @returns how many bytes; 0 at the end
   */
  getdents(fd: number, into: Uint8Array): number
  /** The same, in a thread. `into` must not be used before the promise has settled. */
  getdentsAside(fd: number, into: Uint8Array): Promise<number>

  unlinkat(directory: number, name: Name): void
  tryUnlinkat(directory: number, name: Name): number
  mkdirat(directory: number, name: Name, mode: number): void
  /** Links the name itself, also if it is a symbolic link. */
  linkat(directory: number, name: Name, toDirectory: number, to: Name): void
  renameat(directory: number, name: Name, toDirectory: number, to: Name): void
  /**
   * Renames a file without overwriting another. Where the file system cannot do that in one step, the file has both names
   * for a moment.
   *
   * @throws EEXIST if the new name is taken
   */
  renameFreely(directory: number, name: Name, toDirectory: number, to: Name): void

  /**
   * Returns the text of a link. The name '' stands for the link that `directory` holds.
   *
   * @throws EINVAL for anything that is no link
   */
  readlinkat(directory: number, name: Name): string

  mkfifo(path: Name, mode: number): void
  /** Opens a file in memory. It has no name, and no file system's limit applies to it. */
  memoryFile(): number
  /** Maps the first bytes of a file into memory that all processes share that map it. */
  mapShared(fd: number, bytes: number): Mapping
  /** @returns the reading and the writing end */
  pipe(): [reader: number, writer: number]
  /** Sends one datagram to a unix socket; `@` begins an abstract address. @returns false if its queue is full */
  sendDatagram(address: Name, message: Uint8Array): boolean
  /** Makes a unix socket without a name. */
  socket(): number
  /** Gives a socket its name. It fails if there is anything of that name, also a link. The mode is that of the umask. */
  bindat(socket: number, directory: number, name: Name): void
  /**
   * Makes two ends of a connection whose messages stay whole. The first one waits at most this long, for an answer or for
   * room.
   */
  socketPair(timeoutMs: number): [number, number]
  /** Sends a message, and copies of descriptors (SCM_RIGHTS). Waits for room. */
  sendMessage(socket: number, message: Uint8Array, descriptors: readonly number[]): void
  /** Waits for a message. @returns how long it is, 0 once nobody has the other end, and the descriptors that came with it */
  receiveMessage(socket: number, into: Uint8Array): { bytes: number; descriptors: number[] }
  /** Makes reads and writes wait, for all who share this open file. */
  letWait(fd: number): void
  /** Takes the wait status of a child that has ended. @returns that status; undefined while the child runs */
  waitpid(pid: number): number | undefined
}

export type Name = string | Uint8Array

/** Memory that is shared with other processes. Nothing may use it after `unmap`. */
export interface Mapping {
  readonly memory: ArrayBuffer
  unmap(): void
}

/** Linux: refers to a file without opening it, also to a directory that we may not list. Node has no constant for it. */
export const O_PATH = process.platform === 'linux' ? 0o10000000 : 0

/** Looks names up below the working directory. */
export const CWD = -100

const KINDS = 0o170000
const REGULAR = 0o100000
const DIRECTORY = 0o040000
const LINK = 0o120000
const SOCKET = 0o140000
const FIFO = 0o010000
const CHARACTER_DEVICE = 0o020000

/**
 * The status of a file. The parts of an inode or a device number are kept apart: as one Number, neighbours above 2^53 would
 * be equal.
 */
export class FileStatus {
  readonly mode: number
  readonly links: number
  readonly uid: number
  readonly gid: number
  readonly size: number
  readonly mtimeMs: number
  readonly ctimeMs: number
  readonly inodeHigh: number
  readonly inodeLow: number
  readonly major: number
  readonly minor: number

  constructor(
    mode: number,
    links: number,
    uid: number,
    gid: number,
    size: number,
    mtimeMs: number,
    ctimeMs: number,
    inodeHigh: number,
    inodeLow: number,
    major: number,
    minor: number,
  ) {
    this.mode = mode
    this.links = links
    this.uid = uid
    this.gid = gid
    this.size = size
    this.mtimeMs = mtimeMs
    this.ctimeMs = ctimeMs
    this.inodeHigh = inodeHigh
    this.inodeLow = inodeLow
    this.major = major
    this.minor = minor
  }

  get isFile(): boolean {
    return (this.mode & KINDS) === REGULAR
  }

  get isDirectory(): boolean {
    return (this.mode & KINDS) === DIRECTORY
  }

  get isLink(): boolean {
    return (this.mode & KINDS) === LINK
  }

  get isSocket(): boolean {
    return (this.mode & KINDS) === SOCKET
  }

  get isFifo(): boolean {
    return (this.mode & KINDS) === FIFO
  }

  get isCharacterDevice(): boolean {
    return (this.mode & KINDS) === CHARACTER_DEVICE
  }

  get inode(): bigint {
    return (BigInt(this.inodeHigh) << 32n) | BigInt(this.inodeLow)
  }

  /** True if both are one inode of one file system. */
  isSame(other: FileStatus): boolean {
    return (
      this.inodeLow === other.inodeLow &&
      this.inodeHigh === other.inodeHigh &&
      this.minor === other.minor &&
      this.major === other.major
    )
  }
}

/** Makes an error as node:fs throws it. @param error negative, as in its `errno` */
export function systemError(error: number, syscall: string, path?: string, dest?: string): Error {
  const [code, text] = getSystemErrorMap().get(error) ?? [nameOf(error), undefined]
  const names = [path, dest].flatMap(name => (name === undefined ? [] : [`'${name}'`])).join(' -> ')
  const reason = text === undefined ? code : `${code}: ${text}`
  return Object.assign(new Error(`${reason}, ${syscall}${names === '' ? '' : ` ${names}`}`), {
    errno: error,
    code,
    syscall,
    ...(path === undefined ? {} : { path }),
    ...(dest === undefined ? {} : { dest }),
  })
}

/** Returns the name of an error that no call of node:fs can have. */
function nameOf(error: number): string {
  const [name] = Object.entries(constants.errno).find(([, number]) => number === -error) ?? []
  return name ?? `Unknown system error ${error}`
}

/**
 * Returns the path of a name below a directory, for errors, and where only paths will do; files/anchored-path names it for
 * people.
 */
export function pathBelow(directory: number, name: Name): string {
  const text = typeof name === 'string' ? name : Buffer.from(name).toString('latin1')
  return directory === CWD || text.startsWith('/') ? text : `${descriptorPath(directory)}/${text}`
}

/** The same path as text, for an error. */
export function shownBelow(directory: number, name: Name): string {
  return displayName(pathBelow(directory, name))
}

// These check what a caller passes. If one of them throws, no system call has been made.

export function checkDescriptor(fd: number): number {
  if ((fd | 0) !== fd || fd < 0) throw outOfRange('a descriptor', fd)
  return fd
}

export function checkDirectory(fd: number): number {
  return fd === CWD ? fd : checkDescriptor(fd)
}

export function checkInteger(what: string, value: number, least: number, most: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most)
    throw outOfRange(`${what} from ${least} to ${most}`, value)
  return value
}

/** Checks the arguments of `pread` and `pwrite`. */
export function checkTransfer(fd: number, buffer: Uint8Array, bytes: number, position: number): void {
  checkDescriptor(fd)
  checkInteger('bytes', bytes, 0, checkBytes(buffer).length)
  checkInteger('a position', position, 0, Number.MAX_SAFE_INTEGER)
}

export function checkRun(first: number, last: number): void {
  checkDescriptor(first)
  checkInteger('the last descriptor', last, first, MOST_DESCRIPTOR)
}

export const MOST_DESCRIPTOR = 2 ** 31 - 1
/** How many descriptors one message may bring. */
export const MOST_PASSED = 16

export function checkBytes(buffer: Uint8Array): Uint8Array {
  if (!(buffer instanceof Uint8Array)) throw new TypeError('expected a Buffer')
  return buffer
}

export function refusedName(name: unknown): TypeError {
  const fault =
    typeof name === 'string' || name instanceof Uint8Array
      ? 'expected one byte per character, and none that is NUL'
      : 'expected a string or a Buffer'
  return Object.assign(new TypeError(`a name: ${fault}`), { code: 'ERR_INVALID_ARG_VALUE' })
}

function outOfRange(what: string, value: unknown): RangeError {
  const got = typeof value === 'number' ? String(value) : typeof value
  return Object.assign(new RangeError(`expected ${what}, got ${got}`), { code: 'ERR_OUT_OF_RANGE' })
}

/** The kinds of entries in a directory that matter to us (DT_*); 0 where the file system does not tell. */
export const UNTOLD = 0
export const ENTRY_DIRECTORY = 4
export const ENTRY_FILE = 8

const RECORD_LENGTH_AT = 16
const KIND_AT = 18
const NAME_AT = 19

/**
 * Visits the entries that `getdents` has filled in, except `.` and `..`. A name is a byte string.
 *
 * @param visit returns false to leave the rest
 * @returns false if `visit` did
 */
export function eachEntry(
  entries: Buffer,
  bytes: number,
  visit: (name: string, kind: number) => boolean,
): boolean {
  for (let at = 0; at < bytes; ) {
    const from = at + NAME_AT
    const kind = entries[at + KIND_AT] ?? UNTOLD
    at += (entries[at + RECORD_LENGTH_AT] ?? 0) | ((entries[at + RECORD_LENGTH_AT + 1] ?? 0) << 8)
    // records are padded to 8 bytes with whatever was there before, so the first NUL of the last 8 ends the name
    let end = Math.max(from, at - 8)
    while (entries[end] !== 0) end++
    if (isDots(entries, from, end)) continue
    if (!visit(entries.toString('latin1', from, end), kind)) return false
  }
  return true
}

const DOT = 46

function isDots(entries: Buffer, from: number, end: number): boolean {
  return entries[from] === DOT && (end === from + 1 || (end === from + 2 && entries[from + 1] === DOT))
}
