import fs, { constants } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { errnoOf, messageOf, quietly } from '../base/errors.js'
import { PACKAGE_ROOT } from '../base/package-root.js'
import {
  CWD,
  checkBytes,
  checkDescriptor,
  checkDirectory,
  checkInteger,
  checkRun,
  checkTransfer,
  FileStatus,
  type Mapping,
  MOST_DESCRIPTOR,
  MOST_PASSED,
  type Name,
  pathBelow,
  refusedName,
  type SystemCalls,
  shownBelow,
  systemError,
} from './calls.js'
import { nodeCalls, openByComponents } from './elsewhere.js'

/**
 * System calls through koffi, which no other module knows. No pointer leaves this module: each function checks what it is
 * given, because koffi takes `undefined` for NULL, a number for an address, and an integer that does not fit for another
 * one.
 *
 * Only for Linux on 64-bit processors: all structures used here look the same on all of them.
 */

type Native = ((...args: unknown[]) => number) & {
  async(...args: [...unknown[], (error: Error | null, result: number) => void]): void
}

/** The part of koffi that is used here. */
export interface Koffi {
  load(library: null): { func(name: string, result: string, args: string[]): Native }
  /** The number of the last error of this thread; anything that runs in between may change it. */
  errno(number?: number): number
  /** Returns the address of a Buffer, for structures that point to it. The Buffer has to stay alive as long as they do. */
  address(buffer: Uint8Array): bigint
  view(address: bigint, bytes: number): ArrayBuffer
}

// errno(3), the same on all processors
const ENOENT = 2
const EIO = 5
const EAGAIN = 11
const EACCES = 13
const EPERM = 1
const EINTR = 4
const EINVAL = 22
const ENAMETOOLONG = 36
const ENOSYS = 38
const EMSGSIZE = 90

const O_CLOEXEC = 0o2000000
const F_SETFD = 2
const FD_CLOEXEC = 1
const [F_OFD_GETLK, F_OFD_SETLK, F_WRLCK, F_UNLCK] = [36, 37, 1, 2]
const [AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH] = [0x100, 0x1000]
const STATX_BASIC_STATS = 0x7ff
const RENAME_NOREPLACE = 1
const [RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH] = [2, 4, 8]
const BENEATH = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
const CLOSE_RANGE_CLOEXEC = 4
const [F_GETFL, F_SETFL] = [3, 4]
const [AF_UNIX, SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_CLOEXEC] = [1, 1, 2, 5, O_CLOEXEC]
const [MSG_CTRUNC, MSG_TRUNC, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_CMSG_CLOEXEC] = [8, 0x20, 0x40, 0x4000, 2 ** 30]
const [SOL_SOCKET, SO_RCVTIMEO, SO_SNDTIMEO, SCM_RIGHTS] = [1, 20, 21, 1]
const WNOHANG = 1
const PROT_READ = 1
const PROT_WRITE = 2
const MAP_SHARED = 1
const MFD_CLOEXEC = 1

const MOST_MODE = 0o7777
const PATH_MAX = 4096
const SUN_PATH = 108
const CMSG_HEADER = 16

/**
 * The numbers of the system calls that some libc does not export: musl before 1.2.5, glibc before 2.30. The columns are x64
 * and arm64; RISC-V and LoongArch count as arm64.
 */
const NUMBERS = {
  getdents64: [217, 61],
  statx: [332, 291],
  renameat2: [316, 276],
  close_range: [436, 436],
  openat2: [437, 437],
  memfd_create: [319, 279],
} as const
const COLUMNS: Readonly<Record<string, 0 | 1>> = {
  x64: 0,
  arm64: 1,
  riscv64: 1,
  loong64: 1,
}

const PROTOTYPES = {
  openat: ['int', 'int', 'const char *', 'int', 'unsigned int'],
  openat2: ['long', 'int', 'const char *', 'void *', 'size_t'],
  close: ['int', 'int'],
  close_range: ['int', 'unsigned int', 'unsigned int', 'unsigned int'],
  fcntl: ['int', 'int', 'int', 'void *'],
  statx: ['int', 'int', 'const char *', 'int', 'unsigned int', 'void *'],
  pread: ['long', 'int', 'void *', 'size_t', 'long'],
  pwrite: ['long', 'int', 'void *', 'size_t', 'long'],
  getdents64: ['long', 'int', 'void *', 'size_t'],
  unlinkat: ['int', 'int', 'const char *', 'int'],
  mkdirat: ['int', 'int', 'const char *', 'unsigned int'],
  linkat: ['int', 'int', 'const char *', 'int', 'const char *', 'int'],
  renameat: ['int', 'int', 'const char *', 'int', 'const char *'],
  renameat2: ['int', 'int', 'const char *', 'int', 'const char *', 'unsigned int'],
  readlinkat: ['long', 'int', 'const char *', 'void *', 'size_t'],
  mkfifo: ['int', 'const char *', 'unsigned int'],
  memfd_create: ['int', 'const char *', 'unsigned int'],
  mmap: ['long', 'void *', 'size_t', 'int', 'int', 'int', 'long'],
  munmap: ['int', 'void *', 'size_t'],
  pipe2: ['int', 'void *', 'int'],
  socket: ['int', 'int', 'int', 'int'],
  sendto: ['long', 'int', 'void *', 'size_t', 'int', 'void *', 'unsigned int'],
  socketpair: ['int', 'int', 'int', 'int', 'void *'],
  bind: ['int', 'int', 'void *', 'unsigned int'],
  sendmsg: ['long', 'int', 'void *', 'int'],
  recvmsg: ['long', 'int', 'void *', 'int'],
  setsockopt: ['int', 'int', 'int', 'int', 'void *', 'unsigned int'],
  waitpid: ['int', 'int', 'void *', 'int'],
  _exit: ['int', 'int'],
} as const

type Call = keyof typeof PROTOTYPES

/** Returns the functions of libc. Each is declared when it is first called, because a declaration takes 40 µs. */
function declarations(koffi: Koffi, arch: string): Readonly<Record<Call, Native>> {
  const library = koffi.load(null)
  const table = {} as Record<Call, Native>
  for (const name of Object.keys(PROTOTYPES) as Call[])
    Object.defineProperty(table, name, {
      configurable: true,
      get() {
        const value = declare(name)
        Object.defineProperty(table, name, { value })
        return value
      },
    })
  return table

  function declare(name: Call): Native {
    const [result, ...args] = PROTOTYPES[name]
    try {
      return library.func(name, result, args)
    } catch {
      return byNumber(name, args)
    }
  }

  function byNumber(name: Call, args: readonly string[]): Native {
    const numbers = name in NUMBERS ? NUMBERS[name as keyof typeof NUMBERS] : undefined
    const number = numbers?.[COLUMNS[arch] ?? 0]
    if (number === undefined) return Object.assign(() => notThere(), { async: notThereAside })
    // 32-bit integers are passed as 64-bit ones, because the kernel looks at the sign of those
    const wide = args.map(type =>
      type === 'int' ? 'long' : type === 'unsigned int' ? 'unsigned long' : type,
    )
    const syscall = library.func('syscall', 'long', ['long', ...wide])
    return Object.assign((...given: unknown[]) => syscall(number, ...given), {
      async: (...given: [...unknown[], () => void]) => syscall.async(number, ...given),
    })
  }

  function notThere(): number {
    koffi.errno(ENOSYS)
    return -1
  }

  function notThereAside(...args: [...unknown[], (error: null, result: number) => void]): void {
    const done = args[args.length - 1]
    koffi.errno(ENOSYS)
    if (typeof done === 'function') done(null, -1)
  }
}

/**
 * Names that libc is given as strings, because each of their characters is one byte anyway. Others are given as bytes that
 * end with NUL.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII but NUL
const PLAIN = /^[\x01-\x7f]*$/

/** The plain name that was tested last: a task's name is given twice, to open its file and to remove it. */
let plain = ''

function toC(name: Name, bytes: Buffer): string | Buffer {
  if (typeof name === 'string') {
    if (name === plain) return name
    if (name.length > PATH_MAX) return TOO_LONG
    if (PLAIN.test(name)) {
      plain = name
      return name
    }
    if (!BYTES.test(name)) throw refusedName(name)
    bytes[bytes.write(name, 0, 'latin1')] = 0
    return bytes
  }
  if (!(name instanceof Uint8Array) || name.includes(0)) throw refusedName(name)
  if (name.length > PATH_MAX) return TOO_LONG
  bytes.set(name)
  bytes[name.length] = 0
  return bytes
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: all bytes but NUL
const BYTES = /^[\x01-\xff]*$/
/** Given in place of a name that is too long: the kernel itself then says so. */
const TOO_LONG = 'x'.repeat(PATH_MAX + 1)

/**
 * Returns the system calls over libc.
 *
 * @param arch the processor whose numbers `syscall` is given
 * @param isAtOnce true if all functions are to be declared now
 */
export function libcOver(koffi: Koffi, arch: string = process.arch, isAtOnce = false): SystemCalls {
  const native = declarations(koffi, arch)
  if (isAtOnce) for (const name of Object.keys(PROTOTYPES) as Call[]) void native[name]
  /** The functions that each task needs, declared now: what the table declares on demand is looked up anew at each call. */
  const often = {
    openat: native.openat,
    fcntl: native.fcntl,
    statx: native.statx,
    pread: native.pread,
    pwrite: native.pwrite,
    unlinkat: native.unlinkat,
    close: native.close,
    close_range: native.close_range,
  }
  const [name1, name2] = [Buffer.alloc(PATH_MAX + 1), Buffer.alloc(PATH_MAX + 1)]
  /** struct flock: type, whence 0, start 0, length 0 (to the end), pid 0 */
  const [writeLock, noLock] = [F_WRLCK, F_UNLCK].map(type => {
    const lock = Buffer.alloc(32)
    lock.writeInt16LE(type)
    return lock
  })
  const found = Buffer.alloc(32)
  const statx = new Uint32Array(64)
  const words = new Int32Array(4)

  /** Returns the negative number of the error. Must be called in the statement after the call. */
  function failed(): number {
    const error = koffi.errno()
    return error > 0 ? -error : -EIO
  }

  function isRefused(error: number): boolean {
    return error === -ENOSYS || error === -EPERM
  }

  function below(error: number, syscall: string, directory: number, name: Name): Error {
    return systemError(error, syscall, shownBelow(directory, name))
  }

  function fromTo(error: number, syscall: string, from: number, name: Name, to: number, toName: Name): Error {
    return systemError(error, syscall, shownBelow(from, name), shownBelow(to, toName))
  }

  function tryOpenat(directory: number, name: Name, flags: number, mode = 0o666): number {
    checkDirectory(directory)
    checkInteger('flags', flags, 0, MOST_DESCRIPTOR)
    checkInteger('a mode', mode, 0, MOST_MODE)
    const result = often.openat(directory, toC(name, name1), flags | O_CLOEXEC, mode)
    return result < 0 ? failed() : result
  }

  function openat(directory: number, name: Name, flags: number, mode = 0o666): number {
    const fd = tryOpenat(directory, name, flags, mode)
    if (fd < 0) throw below(fd, 'open', directory, name)
    return fd
  }

  let hasOpenat2: boolean | undefined
  function tryOpenat2(directory: number, name: string | Buffer, flags: number, resolve: number): number {
    const how = BigUint64Array.of(BigInt(flags | O_CLOEXEC), 0n, BigInt(resolve))
    const result = native.openat2(directory, name, how, how.byteLength)
    return result < 0 ? failed() : result
  }

  /** Returns true if openat2 can be used: a filter of system calls may refuse it, and an old kernel does not know it. */
  function probeOpenat2(): boolean {
    const fd = tryOpenat2(CWD, '/', constants.O_RDONLY | constants.O_DIRECTORY, RESOLVE_NO_SYMLINKS)
    if (fd >= 0) often.close(fd)
    return !isRefused(fd)
  }

  function openBeneath(directory: number, path: Name, flags: number): number {
    checkDirectory(directory)
    checkInteger('flags', flags, 0, MOST_DESCRIPTOR)
    const name = toC(path, name1)
    hasOpenat2 ??= probeOpenat2()
    if (!hasOpenat2) return openByComponents(calls, directory, path, flags)
    const fd = tryOpenat2(directory, name, flags, BENEATH)
    if (fd < 0) throw below(fd, 'open', directory, path)
    return fd
  }

  function close(fd: number): void {
    const result = often.close(checkDescriptor(fd))
    if (result === 0) return
    const error = failed()
    if (error !== -EINTR) throw systemError(error, 'close') // an interrupted close has closed the descriptor all the same
  }

  function closeRun(first: number, last: number): void {
    checkRun(first, last)
    if (first !== last && often.close_range(first, last, 0) === 0) return
    for (let fd = first; fd <= last; fd++) close(fd)
  }

  function keepFromChildren(first: number): void {
    checkDescriptor(first)
    const result = often.close_range(first, MOST_DESCRIPTOR, CLOSE_RANGE_CLOEXEC)
    if (result === 0) return
    // before Linux 5.11; a descriptor that is closed meanwhile needs no flag
    for (const fd of fs.readdirSync('/proc/self/fd').map(Number))
      if (fd >= first) often.fcntl(fd, F_SETFD, FD_CLOEXEC)
  }

  function lock(fd: number, kind: Buffer | undefined): boolean {
    const result = often.fcntl(checkDescriptor(fd), F_OFD_SETLK, kind)
    if (result === 0) return true
    const error = failed()
    if (error === -EAGAIN || error === -EACCES) return false
    throw systemError(error, 'fcntl')
  }

  /** Asks about a lock on the whole file: the kernel writes into `found` which lock is in the way, or that none is. */
  function isLocked(fd: number): boolean {
    found.fill(0)
    found.writeInt16LE(F_WRLCK)
    const result = often.fcntl(checkDescriptor(fd), F_OFD_GETLK, found)
    if (result < 0) throw systemError(failed(), 'fcntl')
    return found.readInt16LE() !== F_UNLCK
  }

  /** Returns the status that the last call has written into `statx`. */
  function statusFound(): FileStatus {
    const at = (i: number) => statx[i] ?? 0
    return new FileStatus(
      at(7) & 0xffff,
      at(4),
      at(5),
      at(6),
      at(10) + at(11) * 2 ** 32,
      ((at(29) | 0) * 2 ** 32 + at(28)) * 1000 + at(30) / 1e6,
      ((at(25) | 0) * 2 ** 32 + at(24)) * 1000 + at(26) / 1e6,
      at(9),
      at(8),
      at(34),
      at(35),
    )
  }

  function status(fd: number): FileStatus {
    const result = often.statx(checkDescriptor(fd), '', AT_EMPTY_PATH, STATX_BASIC_STATS, statx)
    if (result === 0) return statusFound()
    const error = failed()
    if (isRefused(error)) return nodeCalls.status(fd)
    throw systemError(error, 'fstat')
  }

  function statusAt(directory: number, name: Name): FileStatus | undefined {
    checkDirectory(directory)
    const result = often.statx(directory, toC(name, name1), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, statx)
    if (result === 0) return statusFound()
    const error = failed()
    if (error === -ENOENT) return undefined
    if (isRefused(error)) return nodeCalls.statusAt(directory, name)
    throw below(error, 'lstat', directory, name)
  }

  function pread(fd: number, into: Uint8Array, bytes: number, position: number): number {
    checkTransfer(fd, into, bytes, position)
    const result = often.pread(fd, into, bytes, position)
    if (result >= 0) return result
    throw systemError(failed(), 'read')
  }

  function pwrite(fd: number, from: Uint8Array, bytes: number, position: number): number {
    checkTransfer(fd, from, bytes, position)
    const result = often.pwrite(fd, from, bytes, position)
    if (result >= 0) return result
    throw systemError(failed(), 'write')
  }

  function getdents(fd: number, into: Uint8Array): number {
    const result = native.getdents64(checkDescriptor(fd), checkBytes(into), into.length)
    if (result >= 0) return result
    throw systemError(failed(), 'scandir')
  }

  function getdentsAside(fd: number, into: Uint8Array): Promise<number> {
    checkDescriptor(fd)
    checkBytes(into)
    return new Promise((resolve, reject) => {
      native.getdents64.async(fd, into, into.length, (fault, result) => {
        const error = failed()
        if (fault !== null) reject(fault)
        else if (result < 0) reject(systemError(error, 'scandir'))
        else resolve(result)
      })
    })
  }

  function tryUnlinkat(directory: number, name: Name): number {
    checkDirectory(directory)
    const result = often.unlinkat(directory, toC(name, name1), 0)
    return result < 0 ? failed() : 0
  }

  function unlinkat(directory: number, name: Name): void {
    const error = tryUnlinkat(directory, name)
    if (error < 0) throw below(error, 'unlink', directory, name)
  }

  function mkdirat(directory: number, name: Name, mode: number): void {
    checkDirectory(directory)
    checkInteger('a mode', mode, 0, MOST_MODE)
    const result = native.mkdirat(directory, toC(name, name1), mode)
    if (result < 0) throw below(failed(), 'mkdir', directory, name)
  }

  function linkat(directory: number, name: Name, toDirectory: number, to: Name): void {
    checkDirectory(directory)
    checkDirectory(toDirectory)
    const [from, target] = [toC(name, name1), toC(to, name2)]
    const result = native.linkat(directory, from, toDirectory, target, 0)
    if (result < 0) throw fromTo(failed(), 'link', directory, name, toDirectory, to)
  }

  function renameat(directory: number, name: Name, toDirectory: number, to: Name): void {
    checkDirectory(directory)
    checkDirectory(toDirectory)
    const [from, target] = [toC(name, name1), toC(to, name2)]
    const result = native.renameat(directory, from, toDirectory, target)
    if (result < 0) throw fromTo(failed(), 'rename', directory, name, toDirectory, to)
  }

  function renameFreely(directory: number, name: Name, toDirectory: number, to: Name): void {
    checkDirectory(directory)
    checkDirectory(toDirectory)
    const [from, target] = [toC(name, name1), toC(to, name2)]
    const result = native.renameat2(directory, from, toDirectory, target, RENAME_NOREPLACE)
    if (result === 0) return
    const error = failed()
    if (error !== -EINVAL && !isRefused(error))
      throw fromTo(error, 'rename', directory, name, toDirectory, to)
    linkat(directory, name, toDirectory, to)
    unlinkat(directory, name)
  }

  function readlinkat(directory: number, name: Name): string {
    checkDirectory(directory)
    const text = Buffer.alloc(PATH_MAX)
    const result = native.readlinkat(directory, toC(name, name1), text, text.length)
    if (result < 0) throw below(failed(), 'readlink', directory, name)
    return text.toString('latin1', 0, result)
  }

  function mkfifo(path: Name, mode: number): void {
    checkInteger('a mode', mode, 0, MOST_MODE)
    const result = native.mkfifo(toC(path, name1), mode)
    if (result < 0) throw below(failed(), 'mkfifo', CWD, path)
  }

  function memoryFile(): number {
    const result = native.memfd_create('spoold', MFD_CLOEXEC)
    if (result < 0) throw systemError(failed(), 'memfd_create')
    return result
  }

  function mapShared(fd: number, bytes: number): Mapping {
    checkDescriptor(fd)
    checkInteger('bytes', bytes, 1, MOST_DESCRIPTOR)
    const address = native.mmap(null, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
    if (address < 0) throw systemError(failed(), 'mmap')
    const pointer = BigInt(address)
    return { memory: koffi.view(pointer, bytes), unmap: () => void native.munmap(pointer, bytes) }
  }

  function pipe(): [reader: number, writer: number] {
    const result = native.pipe2(words, O_CLOEXEC)
    if (result < 0) throw systemError(failed(), 'pipe')
    return [words[0] ?? -1, words[1] ?? -1]
  }

  function sendDatagram(address: Name, message: Uint8Array): boolean {
    checkBytes(message)
    const to = socketAddress(address, 'send')
    const fd = native.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
    if (fd < 0) throw systemError(failed(), 'socket')
    const result = native.sendto(fd, message, message.length, MSG_DONTWAIT | MSG_NOSIGNAL, to, to.length)
    const error = result < 0 ? failed() : 0
    often.close(fd)
    if (error === -EAGAIN) return false
    if (error < 0) throw systemError(error, 'send', shownBelow(CWD, address))
    return true
  }

  /** Returns a struct sockaddr_un, as long as it has to be: its length says where an abstract name ends. */
  function socketAddress(address: Name, syscall: string): Buffer {
    const path = Buffer.from(toC(address, name1))
    const end = path.indexOf(0)
    const name = end < 0 ? path : path.subarray(0, end)
    if (name.length >= SUN_PATH || name.length === 0)
      throw systemError(name.length === 0 ? -EINVAL : -ENAMETOOLONG, syscall, shownBelow(CWD, address))
    const isAbstract = name[0] === '@'.charCodeAt(0)
    const to = Buffer.alloc(2 + name.length + (isAbstract ? 0 : 1))
    to.writeUInt16LE(AF_UNIX)
    name.copy(to, 2)
    if (isAbstract) to[2] = 0
    return to
  }

  function socket(): number {
    const fd = native.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
    if (fd < 0) throw systemError(failed(), 'socket')
    return fd
  }

  function bindat(socket: number, directory: number, name: Name): void {
    checkDescriptor(socket)
    checkDirectory(directory)
    const path = pathBelow(directory, name)
    const address = socketAddress(path.startsWith('@') ? `./${path}` : path, 'bind')
    const result = native.bind(socket, address, address.length)
    if (result < 0) throw below(failed(), 'bind', directory, name)
  }

  function socketPair(timeoutMs: number): [number, number] {
    checkInteger('milliseconds', timeoutMs, 1, MOST_DESCRIPTOR)
    const result = native.socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, words)
    if (result < 0) throw systemError(failed(), 'socketpair')
    const [one = -1, other = -1] = words
    const time = BigInt64Array.of(BigInt(Math.floor(timeoutMs / 1000)), BigInt((timeoutMs % 1000) * 1000))
    for (const option of [SO_RCVTIMEO, SO_SNDTIMEO])
      native.setsockopt(one, SOL_SOCKET, option, time, time.byteLength)
    return [one, other]
  }

  /** struct msghdr, with one struct iovec and a control message that has room for descriptors; the same in glibc and musl. */
  const header = Buffer.alloc(56)
  const piece = Buffer.alloc(16)
  const control = Buffer.alloc(CMSG_HEADER + 4 * MOST_PASSED)

  function fillHeader(bytes: Uint8Array, controlBytes: number): void {
    header.fill(0)
    piece.writeBigUInt64LE(koffi.address(bytes), 0)
    piece.writeBigUInt64LE(BigInt(bytes.length), 8)
    header.writeBigUInt64LE(koffi.address(piece), 16)
    header.writeUInt32LE(1, 24)
    if (controlBytes === 0) return
    header.writeBigUInt64LE(koffi.address(control), 32)
    header.writeUInt32LE(controlBytes, 40)
  }

  function sendMessage(socket: number, message: Uint8Array, descriptors: readonly number[]): void {
    checkDescriptor(socket)
    if (checkBytes(message).length === 0) throw new RangeError('expected a message, got no bytes')
    checkInteger('a number of descriptors', descriptors.length, 0, MOST_PASSED)
    const length = CMSG_HEADER + 4 * descriptors.length
    control.fill(0)
    control.writeUInt32LE(length, 0)
    control.writeInt32LE(SOL_SOCKET, 8)
    control.writeInt32LE(SCM_RIGHTS, 12)
    for (const [i, fd] of descriptors.entries())
      control.writeInt32LE(checkDescriptor(fd), CMSG_HEADER + 4 * i)
    fillHeader(message, descriptors.length === 0 ? 0 : length)
    for (;;) {
      const result = native.sendmsg(socket, header, MSG_NOSIGNAL)
      const error = result < 0 ? failed() : 0
      if (error === 0) return
      if (error !== -EINTR) throw systemError(error, 'sendmsg')
    }
  }

  function receiveMessage(socket: number, into: Uint8Array): { bytes: number; descriptors: number[] } {
    checkDescriptor(socket)
    for (;;) {
      fillHeader(checkBytes(into), control.length)
      const result = native.recvmsg(socket, header, MSG_CMSG_CLOEXEC)
      const error = result < 0 ? failed() : 0
      if (error === -EINTR) continue
      if (error < 0) throw systemError(error, 'recvmsg')
      const descriptors = passed()
      if ((header.readUInt32LE(48) & (MSG_TRUNC | MSG_CTRUNC)) === 0) return { bytes: result, descriptors }
      for (const fd of descriptors) close(fd)
      throw systemError(-EMSGSIZE, 'recvmsg')
    }
  }

  /** Returns the descriptors that a message has brought. */
  function passed(): number[] {
    const length = header.readUInt32LE(40) === 0 ? 0 : control.readUInt32LE(0)
    if (length < CMSG_HEADER || control.readInt32LE(12) !== SCM_RIGHTS) return []
    return Array.from({ length: (length - CMSG_HEADER) >> 2 }, (_, i) =>
      control.readInt32LE(CMSG_HEADER + 4 * i),
    )
  }

  function letWait(fd: number): void {
    const flags = often.fcntl(checkDescriptor(fd), F_GETFL, 0)
    if (flags < 0) throw systemError(failed(), 'fcntl')
    const result = often.fcntl(fd, F_SETFL, flags & ~constants.O_NONBLOCK)
    if (result < 0) throw systemError(failed(), 'fcntl')
  }

  function waitpid(pid: number): number | undefined {
    checkInteger('a process', pid, 1, MOST_DESCRIPTOR)
    const result = native.waitpid(pid, words, WNOHANG)
    if (result < 0) throw systemError(failed(), 'waitpid')
    return result === 0 ? undefined : words[0]
  }

  const calls: SystemCalls = {
    isLibc: true,
    openat,
    tryOpenat,
    openBeneath,
    close,
    closeRun,
    keepFromChildren,
    exit: code => void native._exit(checkInteger('an exit code', code, 0, 255)),
    tryLock: fd => lock(fd, writeLock),
    isLocked,
    unlock: fd => void lock(fd, noLock),
    status,
    statusAt,
    pread,
    pwrite,
    getdents,
    getdentsAside,
    unlinkat,
    tryUnlinkat,
    mkdirat,
    linkat,
    renameat,
    renameFreely,
    readlinkat,
    mkfifo,
    memoryFile,
    mapShared,
    pipe,
    sendDatagram,
    socket,
    bindat,
    socketPair,
    sendMessage,
    receiveMessage,
    letWait,
    waitpid,
  }
  return calls
}

/**
 * Returns the system calls for a thread. There, Node opens and closes the files: when the thread is ended, Node closes what
 * it has opened itself, so that no lock of a killed worker stays. All functions are declared at once, because koffi ends the
 * process if its thread is ended amid a declaration. Amid a call, the thread may be ended.
 */
function libcInThread(koffi: Koffi): SystemCalls {
  const { openat, tryOpenat, close, closeRun } = nodeCalls
  const calls: SystemCalls = {
    ...libcOver(koffi, process.arch, true),
    openat,
    tryOpenat,
    openBeneath: (directory, path, flags) => openByComponents(calls, directory, path, flags),
    close,
    closeRun,
  }
  return calls
}

let loaded: { calls: SystemCalls; fault: string | undefined } | undefined

function load(): { calls: SystemCalls; fault: string | undefined } {
  try {
    if (!isMainThread) return { calls: libcInThread(openKoffi()), fault: undefined }
    const calls = libcOver(openKoffi())
    if (isOwnProgram()) process.on('exit', leaveBrokenOutputs)
    return { calls, fault: undefined }
  } catch (error) {
    return { calls: nodeCalls, fault: messageOf(error).split('\n')[0] }
  }
}

/** False in an application that uses spoold as a library: its outputs are its own. */
function isOwnProgram(): boolean {
  const program = quietly(() => fs.realpathSync(process.argv[1] ?? ''), '')
  return ['bin', 'dist'].includes(relative(PACKAGE_ROOT, dirname(program)))
}

/**
 * Exchanges an output that cannot be synced, as on a broken disk, for /dev/null. When the process ends, koffi syncs both
 * outputs, and if that of standard error fails, it waits for itself for ever.
 */
function leaveBrokenOutputs(): void {
  for (const fd of [1, 2])
    try {
      fs.fsyncSync(fd)
    } catch (error) {
      const errno = errnoOf(error)
      if (errno === 'EINVAL') continue // a pipe or a terminal, which koffi leaves alone, too
      if (errno !== 'EBADF') fs.closeSync(fd)
      let opened = -1
      while (opened < fd) opened = fs.openSync('/dev/null', 'r+') // the lowest number that is free
    }
}

/** Returns the system calls of this machine; koffi is loaded on first use, once per thread. */
export function systemCalls(): SystemCalls {
  loaded ??= load()
  return loaded.calls
}

/** Returns the same if they have been loaded; else those over node:fs, for a process that makes few. */
export function loadedCalls(): SystemCalls {
  return loaded?.calls ?? nodeCalls
}

/** Returns true if this thread has needed system calls of its own so far. */
export function hasChosen(): boolean {
  return loaded !== undefined
}

/**
 * Returns the system calls over libc.
 *
 * @throws Error why there are none: then there are no record locks, and nothing else that node:fs lacks
 */
export function libc(): SystemCalls {
  loaded ??= load()
  if (loaded.fault !== undefined) throw new Error(loaded.fault)
  return loaded.calls
}

/** Locks a file as `SystemCalls.tryLock` does. Rejects where there are no record locks. */
export async function tryHold(fd: number): Promise<boolean> {
  return libc().tryLock(fd)
}

/** Returns why the system calls are not those over libc; undefined if they are. */
export function libcFault(): string | undefined {
  loaded ??= load()
  return loaded.fault
}

/** Returns koffi itself. @throws Error why it cannot be had here */
export function openKoffi(): Koffi {
  const { platform, arch } = process
  if (platform !== 'linux' || COLUMNS[arch] === undefined)
    throw new Error(
      `libc is called on Linux on ${Object.keys(COLUMNS).join(', ')} only, not on ${platform} ${arch}`,
    )
  const kind = isMusl(interpreterOf(nodeFile())) ? 'musl' : 'linux'
  const require = createRequire(import.meta.url)
  const own = find(require)
  try {
    // loads the binary itself, in 2 ms; koffi's search for it takes 9
    return createRequire(own)(`@koromix/koffi-${platform}-${arch}/${kind}_${arch}/koffi.node`)
  } catch (error) {
    // a binary that cannot be loaded says why; koffi's search would try the one for another libc
    if (errnoOf(error) !== 'MODULE_NOT_FOUND') throw error
    return require('koffi')
  }
}

/**
 * Returns the path of Node's program. Where /proc is not mounted, Node knows only the name by which it was started, often
 * `node`.
 */
function nodeFile(): string {
  const { execPath, env } = process
  if (execPath.includes('/')) return execPath
  const candidates = (env.PATH ?? '').split(':').map(directory => join(directory, execPath))
  return candidates.find(isProgram) ?? execPath
}

/** True for a file that execvp would run: it passes over directories, and over files that are not executable. */
function isProgram(file: string): boolean {
  try {
    fs.accessSync(file, constants.X_OK)
    return fs.statSync(file).isFile()
  } catch {
    return false
  }
}

function find(require: NodeJS.Require): string {
  try {
    return require.resolve('koffi')
  } catch (error) {
    throw new Error('koffi is not installed: npm did without optional dependencies', { cause: error })
  }
}

/** True for musl: a binary for another libc than Node's may crash the process as it is opened. */
function isMusl(interpreter: string): boolean {
  return basename(interpreter).startsWith('ld-musl-')
}

const PT_INTERP = 3
const MOST_BYTES = 4096

/** Returns the program that loads a program's libraries, by its ELF header. @throws Error for a program that loads none */
export function interpreterOf(program: string): string {
  const fd = fs.openSync(program, 'r')
  try {
    const read = (position: number, bytes: number) => {
      const into = Buffer.alloc(Math.min(bytes, MOST_BYTES))
      return into.subarray(0, fs.readSync(fd, into, 0, into.length, position))
    }
    const header = read(0, 64)
    if (header.length < 64 || header.toString('latin1', 0, 6) !== '\x7fELF\x02\x01')
      throw new Error(`${program} is not a program for a 64-bit little-endian processor`)
    const size = header.readUInt16LE(54)
    const segments = read(Number(header.readBigUInt64LE(32)), size * header.readUInt16LE(56))
    for (let at = 0; at + 56 <= segments.length; at += size) {
      if (segments.readUInt32LE(at) !== PT_INTERP) continue
      const path = read(Number(segments.readBigUInt64LE(at + 8)), Number(segments.readBigUInt64LE(at + 32)))
      return path.toString('latin1').replace(/\0.*$/s, '')
    }
  } finally {
    fs.closeSync(fd)
  }
  throw new Error(`${program} is linked statically: it loads no libraries`)
}
