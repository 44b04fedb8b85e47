import fs, { constants } from 'node:fs'
import type { Server } from 'node:net'
import { basename, dirname, resolve } from 'node:path'
import { errnoOf, messageOf, quietly, SpooldError } from '../base/errors.js'
import { crypto, onDemand } from '../base/on-demand.js'
import { displayName, toByteString, toFsPath } from '../base/task/ref.js'
import { CWD, type FileStatus, O_PATH, pathBelow, systemError } from './calls.js'
import { descriptorPath } from './descriptor-path.js'
import { isMapped } from './identity.js'
import { libcFault, loadedCalls, systemCalls, tryHold } from './libc.js'
import { type Act, inodeOf, listenAs, perform, performAs } from './owner-process.js'
import { type Identity, ownerIdentity } from './privileges.js'

const net = onDemand<typeof import('node:net')>('node:net')

/**
 * The one way in which a configured path is opened, made, bound and removed: log, sockets, pidfiles, FIFOs, figures, tokens
 * and the configuration itself.
 *
 * Root goes from `/` by descriptors. As long as nobody but root can exchange a component, root itself goes on. From the
 * first component that belongs to another user, that user goes on (owner-process.ts), wherever the rest leads. A directory
 * of root's that others may write is in between: root takes only its own file there, or what it makes anew; anything else of
 * that name is left to the daemon's user. A process that is not root opens paths as every program does.
 */

const { O_RDONLY, O_WRONLY, O_RDWR, O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants
/** Flags with which nothing that is opened makes us wait, or becomes our terminal. */
const PATIENTLY = O_NONBLOCK | O_NOCTTY
const ENTER = O_PATH | constants.O_DIRECTORY | O_NOFOLLOW
const [ENOENT, EEXIST, ENOTDIR, ELOOP] = [-2, -17, -20, -40]
/** The kernel's limit for the links in a path. */
const MOST_LINKS = 40
/** How often root tries to open a name that somebody else makes and removes without end. */
const MOST_TRIES = 100
const [OTHERS_WRITE, EVERYBODY_WRITES, STICKY] = [0o022, 0o002, 0o1000]
/** The user who acts where anybody may make, or exchange, what is there. */
const NOBODY: Identity = { uid: 65_534, gid: 65_534, user: null, groups: [] }
/** How long a connection may take. A server that does not answer in time counts as listening all the same. */
const CONNECT_MS = 1000
/** How long a connection is kept: a server that is dying has hung up by then. */
const HANG_UP_MS = 250

interface Owner {
  readonly uid: number
  readonly gid: number
}

/** Where a path leads, as far as root goes. */
interface Way {
  /** The directory, held open. */
  readonly directory: number
  readonly status: FileStatus
  /** The path below the directory, a byte string: one component, or several if another user goes on. */
  readonly rest: string
  /** True if others can exchange the directory for another one of root's. */
  readonly isExchangeable: boolean
  /** True if `isExchangeable`, or if others may make names in the directory. */
  readonly isShared: boolean
  /** The first file on the way that belongs to somebody else: the directory, or the file of that name in it. */
  readonly stranger?: FileStatus
  /** Why the rest leads nowhere: ENOENT or ENOTDIR. */
  readonly missing?: number
  /** The descriptor of this process that the path names: /dev/stdout, /dev/fd/63. */
  readonly descriptor?: number
}

/** Where a path leads, and who acts there. */
interface Place {
  readonly directory: number
  readonly name: string
  /** Null: this process. */
  readonly as: Identity | null
  readonly isShared: boolean
  /** True if nobody but root can remove or exchange what root makes there. */
  readonly isKept: boolean
  readonly descriptor?: number
  /** Returns who acts if the name is no file of root's. @throws Error if nobody does */
  otherwise(): Identity
}

interface OpenOptions {
  readonly flags: number
  /** The mode of a file that is made if it is missing; undefined if the file has to be there. */
  readonly mode?: number
  /** True if the last component may be a link. */
  readonly follows?: boolean
  readonly setsAside?: boolean
}

interface SocketRights {
  /** Null: that of the umask. */
  readonly mode: number | null
  /** Null: the user who binds the socket. */
  readonly owner: Owner | null
}

/** A unix socket that is bound, a path where one is to be bound, or a server that listens already, with Node's options. */
export type Bound = { readonly fd: number } | { readonly path: string } | { readonly server: Server }

export class Opener {
  readonly #user: Identity | null

  /** @param user the user that the daemon becomes; null: it stays what it is */
  constructor(user: Identity | null) {
    this.#user = user
  }

  /**
   * Opens a file for appending. A file that is missing is made.
   *
   * @param setsAside true to rename a file of root's that lies in the directory of another user, who may not write the
   *   file
   */
  append(path: string, mode: number, { setsAside = true } = {}): number {
    const fd = this.#open(path, { flags: O_WRONLY | O_APPEND, mode, setsAside })
    const found = loadedCalls().status(fd)
    if (found.isFile) return fd
    if (found.isFifo || found.isCharacterDevice) return waiting(fd, O_WRONLY | O_APPEND)
    fs.closeSync(fd)
    throw new Error(`${path}: expected a file, a pipe or a terminal`)
  }

  /** Opens a file for reading and writing. A file that is missing is made. A link is never followed. */
  make(path: string, mode: number): number {
    return this.#open(path, { flags: O_RDWR, mode, follows: false, setsAside: true })
  }

  /** Opens a file for reading. A FIFO of another user is refused, because that user could keep us waiting. */
  read(path: string): number {
    const fd = this.#open(path, { flags: O_RDONLY })
    const found = loadedCalls().status(fd)
    if (!found.isFifo) return fd
    if (found.uid === process.geteuid?.() || OWN_DESCRIPTOR.test(path)) return waiting(fd, O_RDONLY)
    fs.closeSync(fd)
    throw new Error(`${path} is a FIFO of uid ${found.uid}`)
  }

  /** Returns the first bytes of a file. */
  readStart(path: string, most: number): string {
    const fd = this.read(path)
    try {
      const bytes = Buffer.alloc(most)
      return bytes.toString('latin1', 0, fs.readSync(fd, bytes))
    } finally {
      fs.closeSync(fd)
    }
  }

  /** Opens a FIFO, which is made if it is missing. It is open for writing, too, so that it never ends when a writer leaves. */
  fifo(path: string, mode: number): { readonly fd: number; readonly inode: string } {
    return this.#at(path, false, place => {
      const { name } = place
      try {
        if (foundAt(place) === undefined) act(place, { act: 'mkfifo', name, mode })
      } catch (error) {
        const isThere = errnoOf(error) === 'EEXIST' // another daemon was faster
        if (!isThere)
          throw new Error(`it cannot be made: ${messageOf(inWordsOf(path, place, error))}`, { cause: error })
      }
      // the name may be exchanged at any time: it is held first, then looked at, then opened
      const held = act(place, { act: 'open', name, flags: O_PATH | O_NOFOLLOW, mode: 0 })
      try {
        const found = loadedCalls().status(held)
        if (!found.isFifo) throw new Error('there is another file of this name, which is not a FIFO')
        if (found.uid !== 0 && found.uid !== process.geteuid?.())
          throw new Error(`it belongs to uid ${found.uid}, who could command this daemon`)
        return { fd: fs.openSync(descriptorPath(held), O_RDWR | PATIENTLY), inode: inodeOf(found) }
      } finally {
        fs.closeSync(held)
      }
    })
  }

  /** Replaces a file in one step: a reader finds a whole one or none. @returns the inode of the new file */
  replace(path: string, text: string, mode: number): string {
    return this.#at(path, false, found => {
      const old = foundAt(found)
      const place =
        found.isShared && old !== undefined && !isOwn(old) ? { ...found, as: found.otherwise() } : found
      const made = beside(place.name)
      const fd = act(place, {
        act: 'open',
        name: made,
        flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
        mode,
      })
      const inode = inodeOf(loadedCalls().status(fd))
      try {
        fs.fchmodSync(fd, mode) // whatever the umask
        fs.writeFileSync(fd, text)
        act(place, { act: 'rename', name: made, to: place.name })
        return inode
      } catch (error) {
        act(place, { act: 'unlink', name: made, inode })
        throw error
      } finally {
        fs.closeSync(fd)
      }
    })
  }

  /** Removes a name if it leads to this inode. @returns true if it did */
  remove(path: string, inode: string): boolean {
    try {
      return this.#at(path, false, place => {
        const found = foundAt(place)
        if (found === undefined || inodeOf(found) !== inode) return false
        act(place, { act: 'unlink', name: place.name, inode })
        return true
      })
    } catch (error) {
      if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return false // its directory is gone
      throw error
    }
  }

  /** Makes a directory. @param owner the user to whom root gives it, before anybody can use it */
  makeDirectory(path: string, mode: number, owner?: Owner): void {
    this.#at(path, false, place => {
      const { name, directory, as } = place
      if (as === null && !place.isKept) throw new Error('others could exchange it at once')
      if (owner === undefined || as?.uid === owner.uid) return void act(place, { act: 'mkdir', name, mode })
      if (as !== null) throw new Error(`the directory above it belongs to uid ${as.uid}`)
      act(place, { act: 'mkdir', name, mode: 0o700 })
      const fd = loadedCalls().openat(directory, name, constants.O_DIRECTORY | O_NOFOLLOW)
      try {
        fs.fchownSync(fd, owner.uid, owner.gid)
        fs.fchmodSync(fd, mode)
      } finally {
        fs.closeSync(fd)
      }
    })
  }

  /**
   * Binds a unix socket. The name never leads to a socket that has wrong rights or does not listen yet, and a dead socket is
   * replaced in one step. uWSGI removes any file of that name, even a live server's socket or a plain file.
   *
   * @param listen makes the server of what is bound
   */
  async bind<Made extends { close(): unknown }>(
    path: string,
    rights: SocketRights,
    listen: (at: Bound) => Promise<Made>,
  ): Promise<{ readonly server: Made; readonly inode: string }> {
    const place = this.#place(path, false)
    const made = beside(place.name)
    let server: Made | undefined
    try {
      await checkFree(place)
      server = await listen(await bound(place, made))
      const inode = setRights(place, made, rights)
      act(place, { act: 'rename', name: made, to: place.name })
      return { server, inode }
    } catch (error) {
      server?.close()
      removeSocket({ ...place, name: made })
      throw inWordsOf(path, place, error)
    } finally {
      leave(place)
    }
  }

  /**
   * Opens a pipe or a terminal once more, with an open file of its own that never waits. Returns the same descriptor for
   * anything else.
   */
  again(fd: number): number {
    const stats = fs.fstatSync(fd)
    if (!stats.isFIFO() && !stats.isCharacterDevice()) return fd
    try {
      return fs.openSync(descriptorPath(fd), O_WRONLY | O_NONBLOCK)
    } catch {
      return fd // a pipe of another user
    }
  }

  /** Locks a file for the life of this process. @returns false when another one has */
  lock(fd: number): Promise<boolean> {
    return tryHold(fd)
  }

  #open(path: string, { flags, mode, follows = true, setsAside = false }: OpenOptions): number {
    return this.#at(
      path,
      follows,
      place => {
        const { name, descriptor } = place
        if (descriptor !== undefined) return fs.openSync(descriptorPath(descriptor), flags | PATIENTLY)
        const open: Act = {
          ...{ act: 'open', name, mode: mode ?? 0 },
          flags: flags | PATIENTLY | (mode === undefined ? 0 : O_CREAT) | (follows ? 0 : O_NOFOLLOW),
          setsAside,
        }
        if (place.as !== null || place.directory === CWD) return act(place, open)
        return openAsRoot(place, flags, mode) ?? actInWords(path, { ...place, as: place.otherwise() }, open)
      },
      (flags & (O_WRONLY | O_RDWR)) === 0,
    )
  }

  #at<T>(path: string, follows: boolean, use: (place: Place) => T, isRead = false): T {
    const place = this.#place(path, follows, isRead)
    try {
      return use(place)
    } catch (error) {
      throw inWordsOf(path, place, error)
    } finally {
      leave(place)
    }
  }

  /**
   * Returns the place of a path, which the caller has to leave.
   *
   * @param follows true if a link that is the last component is followed
   */
  #place(path: string, follows: boolean, isRead = false): Place {
    const name = toByteString(path)
    if (process.geteuid?.() !== 0)
      return {
        ...{ directory: CWD, name, as: null, isShared: false, isKept: true },
        otherwise: () => this.#whoActs(path),
      }
    const way = walk(componentsOf(absolute(name)), follows)
    const { directory, rest, isShared, stranger, status } = way
    try {
      if (way.missing !== undefined) throw systemError(way.missing, 'open', path)
      const as =
        stranger === undefined
          ? null
          : isShared
            ? this.#whoActs(path, way, isRead, stranger)
            : this.#as(stranger)
      const otherwise = () => this.#whoActs(path, way, isRead, loadedCalls().statusAt(directory, rest))
      const isKept =
        !way.isExchangeable && ((status.mode & OTHERS_WRITE) === 0 || (status.mode & STICKY) !== 0)
      return { ...way, name: rest, as, isKept, otherwise }
    } catch (error) {
      fs.closeSync(directory)
      throw error
    }
  }

  /**
   * Returns who acts on what is no file of root's, in a directory of root's in which others make names. That is the daemon's
   * user. Where the daemon stays root, it is the owner of what is there, unless it is to be written and everybody may have
   * put it there.
   */
  #whoActs(path: string, way?: Way, isRead = false, found?: FileStatus): Identity {
    if (this.#user !== null && this.#user.uid !== 0) return this.#user
    const isOpen = way !== undefined && (isRead || (way.status.mode & EVERYBODY_WRITES) === 0)
    if (isOpen && found !== undefined && !isRoots(found)) return this.#as(found)
    const whose = found === undefined || isRoots(found) ? 'no file of root’s alone' : `of uid ${found.uid}`
    throw new Error(`${path} is ${whose}, and others make names there: remove it, or set uid`)
  }

  #as({ uid, gid }: FileStatus): Identity {
    return this.#user?.uid === uid ? this.#user : ownerIdentity(uid, gid)
  }
}

/** Returns the inode that a descriptor, or a name that is no link, leads to now. */
export function inodeAt(at: number | string): string | undefined {
  const found =
    typeof at === 'number' ? loadedCalls().status(at) : loadedCalls().statusAt(CWD, toByteString(at))
  return found === undefined ? undefined : inodeOf(found)
}

const OWN_DESCRIPTOR = /^\/(?:dev\/(?:fd\/\d+|std(?:in|out|err))|proc\/self\/fd\/\d+)$/

function act(place: Place, what: Act, socket?: number): number {
  const { directory, as } = place
  return as === null ? perform(directory, what, socket) : performAs(as, directory, what, socket)
}

function actInWords(path: string, place: Place, what: Act): number {
  try {
    return act(place, what)
  } catch (error) {
    throw inWordsOf(path, place, error)
  }
}

function leave({ directory }: Place): void {
  if (directory !== CWD) fs.closeSync(directory)
}

function foundAt({ directory, name }: Place): FileStatus | undefined {
  return loadedCalls().statusAt(directory, name)
}

/** Returns an error of the system with the path as it was configured, and with the user who was refused. */
function inWordsOf(path: string, { as }: Place, error: unknown): unknown {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return error
  if ('path' in error && error.path === path) return error
  const shown = systemError(error.errno, 'syscall' in error ? String(error.syscall) : 'open', path)
  if (as !== null) shown.message += `, as uid ${as.uid}: users other than root can create names above it`
  return shown
}

/** Returns a descriptor that waits for the other end, which is there by now. */
function waiting(fd: number, flags: number): number {
  if (libcFault() === undefined) {
    systemCalls().letWait(fd)
    return fd
  }
  try {
    return fs.openSync(descriptorPath(fd), flags)
  } finally {
    fs.closeSync(fd)
  }
}

/** Returns a new name in the same directory. */
function beside(name: string): string {
  const cut = name.lastIndexOf('/') + 1
  return `${name.slice(0, cut)}.${name.slice(cut)}.${crypto().randomBytes(4).toString('hex')}`
}

/** Opens a file as root. @returns undefined if others make names there, and the file is not root's alone */
function openAsRoot(
  { directory, name, isShared }: Place,
  flags: number,
  mode: number | undefined,
): number | undefined {
  const calls = loadedCalls()
  const safely = flags | PATIENTLY | O_NOFOLLOW
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const fd = calls.tryOpenat(directory, name, safely)
    if (fd >= 0) {
      if (!isShared || isOwn(calls.status(fd))) return fd
      calls.close(fd)
      return undefined
    }
    if (fd !== ENOENT && isShared) return undefined
    if (fd !== ENOENT || mode === undefined) throw systemError(fd, 'open', name)
    const made = calls.tryOpenat(directory, name, safely | O_CREAT | O_EXCL, mode)
    if (made >= 0) return made
    if (made !== EEXIST) throw systemError(made, 'open', name)
  }
  throw systemError(EEXIST, 'open', name)
}

/** True for a file of root's, if this is not a second name of a file that lies elsewhere. */
function isOwn(found: FileStatus): boolean {
  return found.isFile && found.uid === 0 && found.links === 1
}

/**
 * True for a file of root's. A user without a number in this namespace counts as root, because that user cannot be asked: in
 * a container, it may be the host's root.
 */
function isRoots({ uid }: FileStatus): boolean {
  return uid === 0 || !isMapped(uid)
}

function absolute(path: string): string {
  return path.startsWith('/') ? path : resolve(toByteString(process.cwd()), path)
}

function componentsOf(path: string): string[] {
  return path.split('/').filter(each => each !== '' && each !== '.')
}

/**
 * Goes from the root directory as far as root itself may go. No component is followed by name: each is looked at, then
 * entered without following a link, then looked at again.
 *
 * @param follows true if a link that is the last component is followed
 */
function walk(components: readonly string[], follows: boolean): Way {
  const calls = loadedCalls()
  let rest = [...components]
  let at: string[] = []
  let directory = calls.openat(CWD, '/', ENTER)
  let isExchangeable = false
  const enter = (name: string) => {
    const next = calls.openat(directory, name, ENTER)
    calls.close(directory)
    directory = next
  }
  try {
    for (let links = 0; ; ) {
      const status = calls.status(directory)
      const way = { directory, status, isExchangeable, isShared: isExchangeable, rest: rest.join('/') }
      if (!isRoots(status)) return { ...way, rest: way.rest || '.', stranger: status }
      const othersWrite = (status.mode & OTHERS_WRITE) !== 0
      const isShared = isExchangeable || othersWrite
      const descriptor = descriptorNamed(at, rest)
      if (descriptor !== undefined) return { ...way, descriptor }
      const [name, ...more] = rest
      if (name === undefined) return { ...way, isShared, rest: '.' }
      if (name === '..') {
        enter(name)
        at.pop()
        rest = more
        continue
      }
      const found = calls.statusAt(directory, name)
      if (more.length === 0 && !(found?.isLink === true && follows) && name !== '.')
        return { ...way, isShared }
      if (found === undefined) return { ...way, isShared, missing: ENOENT }
      if (!isRoots(found) && (othersWrite || found.isLink)) return { ...way, isShared, stranger: found }
      const maybeMoved = othersWrite && (status.mode & STICKY) === 0
      if (found.isLink) {
        const text = othersWrite && found.links > 1 ? undefined : textOf(directory, name, maybeMoved)
        if (text === undefined) return { ...way, isShared, stranger: found }
        if (++links > MOST_LINKS) throw systemError(ELOOP, 'open', displayName(components.join('/')))
        if (text.startsWith('/')) {
          enter('/')
          at = []
        }
        rest = [...componentsOf(text), ...more]
      } else if (found.isDirectory) {
        enter(name)
        at.push(name)
        rest = more
      } else return { ...way, isShared, missing: ENOTDIR }
      isExchangeable ||= maybeMoved && name !== '.' // `.` is the directory itself
    }
  } catch (error) {
    calls.close(directory)
    throw error
  }
}

/**
 * Returns the descriptor of this process that a path through /proc names. Such a link of the kernel's leads to an open file,
 * and to no name.
 */
function descriptorNamed(
  at: readonly string[],
  [whose = '', room, fd = '', ...more]: readonly string[],
): number | undefined {
  const isOurs = ['self', 'thread-self', String(process.pid)].includes(whose)
  if (at.length !== 1 || at[0] !== 'proc' || !isOurs || room !== 'fd' || more.length > 0) return undefined
  return /^[0-9]+$/.test(fd) ? Number(fd) : undefined
}

/**
 * Returns the text of a link of root's; undefined if it cannot be had.
 *
 * @param isHeld true if others can exchange the link meanwhile, so that it has to be held
 */
function textOf(directory: number, name: string, isHeld: boolean): string | undefined {
  if (!isHeld) return loadedCalls().readlinkat(directory, name)
  if (libcFault() !== undefined) return undefined
  const calls = systemCalls()
  const fd = calls.openat(directory, name, O_PATH | O_NOFOLLOW)
  try {
    const found = calls.status(fd)
    return found.isLink && isRoots(found) && found.links === 1 ? calls.readlinkat(fd, '') : undefined
  } finally {
    calls.close(fd)
  }
}

/** Checks that a socket can be bound there. @throws Error if a program listens there, or if the file of that name is no socket */
async function checkFree(place: Place): Promise<void> {
  const found = foundAt(place)
  if (found === undefined) return
  if (!found.isSocket) throw new Error('there is another file of this name, which is not a socket')
  const path = displayName(pathBelow(place.directory, place.name))
  let answer = await answerAt(path)
  // a server that was killed listens until the last of its threads has ended
  if (answer === 'hung up') answer = await answerAt(path)
  if (answer === 'ECONNREFUSED' || answer === 'ENOENT') return
  const isPlain = answer === 'connected' || answer === 'hung up'
  throw new Error(`another program listens on it${isPlain ? '' : ` (${answer})`}`)
}

/**
 * Connects to a socket.
 *
 * @returns `connected`, `hung up`, that there was no answer, or the error code of a socket that nobody serves
 */
function answerAt(path: string): Promise<string> {
  return new Promise(resolve => {
    let inTime = 'no answer within 1 s'
    const socket = net().connect(path, () => {
      inTime = 'connected'
      setTimeout(() => socket.destroy(), HANG_UP_MS).unref()
    })
    // only the first of these answers counts
    socket.once('end', () => resolve('hung up'))
    socket.once('error', error => resolve(inTime === 'connected' ? 'hung up' : (errnoOf(error) ?? '')))
    socket.once('close', () => resolve(inTime))
    socket.resume()
    setTimeout(() => socket.destroy(), CONNECT_MS).unref()
  })
}

async function bound(place: Place, name: string): Promise<Bound> {
  const { directory, as } = place
  if (libcFault() !== undefined)
    return as === null
      ? { path: displayName(pathBelow(directory, name)) }
      : { server: await listenAs(as, directory, name) }
  const { socket, close } = systemCalls()
  const fd = socket()
  try {
    act(place, { act: 'bind', name }, fd)
    return { fd }
  } catch (error) {
    close(fd)
    throw error
  }
}

/**
 * Sets the rights of the socket that was bound, and not of what may have taken its name: the file is held, and has to belong
 * to the user who bound it.
 *
 * @returns its inode
 */
function setRights(place: Place, name: string, { mode, owner }: SocketRights): string {
  const calls = loadedCalls()
  const held = O_PATH === 0 ? -1 : act(place, { act: 'open', name, flags: O_PATH | O_NOFOLLOW, mode: 0 })
  try {
    const found = held < 0 ? calls.statusAt(place.directory, name) : calls.status(held)
    if (found?.isSocket !== true || found.uid !== (place.as?.uid ?? process.geteuid?.()))
      throw new Error('what was bound is no longer a socket of ours: its directory was changed meanwhile')
    const target = held < 0 ? toFsPath(pathBelow(place.directory, name)) : descriptorPath(held)
    if (mode !== null) fs.chmodSync(target, mode)
    if (owner !== null) fs.chownSync(target, owner.uid, owner.gid)
    return inodeOf(found)
  } finally {
    if (held >= 0) calls.close(held)
  }
}

function removeSocket(place: Place): void {
  try {
    const found = foundAt(place)
    if (found?.isSocket === true) act(place, { act: 'unlink', name: place.name, inode: inodeOf(found) })
  } catch {} // its directory is gone, or changes without end
}

/**
 * Returns whose a file is that root would run: its owner, or the user who can exchange it on the way there.
 *
 * @returns null if the file is root's alone, or nobody's, because it is missing
 */
export function whoseFile(path: string): Identity | null {
  const { directory, rest, status, stranger, missing, isExchangeable } = walk(
    componentsOf(absolute(toByteString(path))),
    true,
  )
  try {
    if (missing !== undefined) return null
    const found = stranger ?? loadedCalls().statusAt(directory, rest)
    if (found === undefined) return null
    if (!isRoots(found)) return ownerIdentity(found.uid, found.gid)
    const isOpen = (status.mode & OTHERS_WRITE) !== 0 && (status.mode & STICKY) === 0
    return isExchangeable || isOpen ? NOBODY : null
  } finally {
    loadedCalls().close(directory)
  }
}

/** A spool, by the way that leads to it. */
export interface FoundSpool {
  /** The spool's real path; if it is missing, where it would be. */
  readonly path: string
  /**
   * The user who acts in the spool: its owner, who is also the one who can exchange it. Null: root acts, and nobody else can
   * exchange the spool.
   */
  readonly owner: Identity | null
  readonly missing?: number
}

/**
 * Finds out whose a spool is, for root, which becomes that user before anything is done there. If a component of the way
 * belongs to another user, the spool has to belong to the same user: otherwise the owner of the component could lead us into
 * what is root's, or a third user's.
 *
 * @param state the directory in the spool whose owner uses a spool of root's
 * @throws SpooldError SPOOL_UNUSABLE; an error of the system
 */
export function findSpool(path: string, state: string): FoundSpool {
  const { fd, ...found } = holdSpool(path, state)
  loadedCalls().close(fd)
  return found
}

/** The same, but the spool stays held; if it is missing, the directory above it. The caller has to close `fd`. */
export function holdSpool(path: string, state: string): FoundSpool & { readonly fd: number } {
  const way = walk([...componentsOf(absolute(toByteString(path))), '.'], true)
  try {
    return way.stranger === undefined ? rootsSpool(path, way, state) : strangersSpool(path, way, way.stranger)
  } catch (error) {
    loadedCalls().close(way.directory)
    throw error
  }
}

/**
 * Makes a missing spool as the owner of the directory above it.
 *
 * @returns false if that owner is root, or if that directory is missing, too
 */
export function makeSpoolAsOwner(path: string, state: string, mode: number): boolean {
  const above = holdSpool(dirname(path), state)
  try {
    if (above.owner === null || above.missing !== undefined) return false
    performAs(above.owner, above.fd, { act: 'mkdir', name: toByteString(basename(path)), mode })
    return true
  } finally {
    loadedCalls().close(above.fd)
  }
}

type HeldSpool = ReturnType<typeof holdSpool>

function rootsSpool(path: string, way: Way, state: string): HeldSpool {
  const { directory: fd, missing } = way
  if (missing !== undefined) return { fd, path: resolve(path), owner: way.isShared ? NOBODY : null, missing }
  const inside = loadedCalls().statusAt(fd, state)
  if (inside?.isDirectory === true && !isRoots(inside))
    return { fd, path: nameOf(fd, path), owner: ownerIdentity(inside.uid, inside.gid) }
  if (way.isExchangeable)
    throw doubtful(path, 'others can exchange it, because they may write in a directory above it')
  return { fd, path: nameOf(fd, path), owner: null }
}

function strangersSpool(path: string, { directory, rest }: Way, stranger: FileStatus): HeldSpool {
  const calls = loadedCalls()
  const owner = ownerIdentity(stranger.uid, stranger.gid)
  if (stranger.isLink) throw doubtful(path, `it is reached through a link of uid ${stranger.uid}`)
  let fd: number
  try {
    fd = calls.openBeneath(directory, rest, ENTER)
  } catch (error) {
    const code = errnoOf(error)
    if (code === 'ELOOP') throw doubtful(path, `it is reached through a link of uid ${stranger.uid}`)
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error
    return { fd: directory, path: resolve(path), owner, missing: code === 'ENOENT' ? ENOENT : ENOTDIR }
  }
  const { uid, gid } = calls.status(fd)
  if (uid !== stranger.uid) {
    calls.close(fd)
    throw doubtful(path, `it belongs to uid ${uid}, and uid ${stranger.uid} can exchange it`)
  }
  calls.close(directory)
  return { fd, path: nameOf(fd, path), owner: ownerIdentity(uid, gid) }
}

/**
 * Returns the real path of a spool that is held. Without /proc, its path has to do: nobody can exchange that but the owner,
 * who uses the spool.
 */
function nameOf(fd: number, path: string): string {
  return quietly(() => fs.readlinkSync(descriptorPath(fd))) ?? fs.realpathSync(path)
}

function doubtful(path: string, fault: string): SpooldError {
  return new SpooldError('SPOOL_UNUSABLE', `root does nothing in ${path}: ${fault}`, {
    details: { path, fault },
  })
}
