import type { ChildProcess } from 'node:child_process'
import fs, { constants } from 'node:fs'
import type { Server } from 'node:net'
import { messageOf } from '../base/errors.js'
import { onDemand } from '../base/on-demand.js'
import { entryFile } from '../base/package-root.js'
import { displayName } from '../base/task/ref.js'
import { type FileStatus, O_PATH, pathBelow, systemError } from './calls.js'
import { descriptorPath } from './descriptor-path.js'
import { libc, loadedCalls, systemCalls } from './libc.js'
import { become, type Identity } from './privileges.js'

const processes = onDemand<typeof import('node:child_process')>('node:child_process')
const net = onDemand<typeof import('node:net')>('node:net')

/**
 * A process that acts as another user, below a directory that root holds and passes to it. It passes back one descriptor, or
 * binds the socket that came with the directory. No process changes its identity back and forth.
 */

/** One step below a directory that is held. A name is a byte string, and may have several components. */
export type Act =
  | {
      readonly act: 'open'
      readonly name: string
      readonly flags: number
      readonly mode: number
      /** True if a file of root's that the user may not open is to keep its content, under another name. */
      readonly setsAside?: boolean
    }
  | { readonly act: 'bind'; readonly name: string }
  | { readonly act: 'mkdir' | 'mkfifo'; readonly name: string; readonly mode: number }
  | { readonly act: 'rename'; readonly name: string; readonly to: string }
  | { readonly act: 'unlink'; readonly name: string; readonly inode: string }

/** Returns a text that tells an inode from all others. */
export function inodeOf({ major, minor, inode }: FileStatus): string {
  return `${major}:${minor}:${inode}`
}

/**
 * Performs an act with the rights of this process.
 *
 * @param socket the socket to which `bind` gives a name
 * @returns the descriptor that `open` has opened; else -1
 * @throws an error of the system
 */
export function perform(directory: number, act: Act, socket = -1): number {
  const calls = loadedCalls()
  const { name } = act
  switch (act.act) {
    case 'open':
      return open(directory, act)
    case 'bind':
      libc().bindat(socket, directory, name)
      break
    case 'mkdir': {
      calls.mkdirat(directory, name, 0o700)
      const fd = calls.openat(directory, name, constants.O_DIRECTORY | constants.O_NOFOLLOW)
      fs.fchmodSync(fd, act.mode) // whatever the umask
      calls.close(fd)
      break
    }
    case 'mkfifo':
      libc().mkfifo(pathBelow(directory, name), act.mode)
      break
    case 'rename':
      calls.renameat(directory, name, directory, act.to)
      break
    case 'unlink': {
      const found = calls.statusAt(directory, name)
      if (found !== undefined && inodeOf(found) === act.inode) calls.unlinkat(directory, name)
    }
  }
  return -1
}

function open(directory: number, { name, flags, mode, setsAside }: Extract<Act, { act: 'open' }>): number {
  const calls = loadedCalls()
  try {
    return calls.openat(directory, name, flags, mode)
  } catch (error) {
    const found = setsAside === true ? calls.statusAt(directory, name) : undefined
    if (numbersOf(error).errno !== EACCES || found?.isFile !== true || found.uid !== 0) throw error
    // over libc, because node:fs would make a link, which only the file's owner may
    systemCalls().renameFreely(directory, name, directory, `${name}.old`)
    return calls.openat(directory, name, flags, mode)
  }
}

const EACCES = -13

interface Failure {
  readonly errno: number
  readonly syscall: string
}

/** Returns the numbers of an error of the system. @throws any other error */
function numbersOf(error: unknown): Failure {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') throw error
  return { errno: error.errno, syscall: 'syscall' in error ? String(error.syscall) : '' }
}

/** `inode` is that of the file that `open` has opened. */
type Answer = { readonly inode?: string } | Failure

/** How long an answer may take: the process may start under load, or a file system hang. */
const ANSWER_MS = 20_000
/** The process ends after this long without a question: at the start of a daemon, several questions follow each other. */
const IDLE_MS = 500
/** How long a message may be: many times the longest path. */
const MESSAGE_BYTES = 32 * 1024
/** The surroundings of a process that begins as root: no variable of a configuration reaches it. */
const SURROUNDINGS = { env: {}, cwd: '/' } as const

interface Owner {
  readonly child: ChildProcess
  readonly socket: number
  readonly idle: NodeJS.Timeout
}

/** Keyed by identity. */
const owners = new Map<string, Owner>()

/** As `perform`, with the rights of another user. @throws an error of the system, or why that user cannot be asked */
export function performAs(identity: Identity, directory: number, act: Act, socket = -1): number {
  const [answer, fd] = systemCalls().isLibc
    ? ask(identity, directory, act, socket)
    : askOnce(identity, directory, act)
  if ('errno' in answer) throw systemError(answer.errno, answer.syscall, act.name)
  return fd
}

function ask(identity: Identity, directory: number, act: Act, socket: number): [answer: Answer, fd: number] {
  const key = JSON.stringify(identity)
  const { socket: ours, idle } = owners.get(key) ?? begin(key)
  const { sendMessage, receiveMessage } = libc()
  const into = Buffer.alloc(MESSAGE_BYTES)
  try {
    sendMessage(ours, Buffer.from(JSON.stringify(act)), socket < 0 ? [directory] : [directory, socket])
    const { bytes, descriptors } = receiveMessage(ours, into)
    idle.refresh()
    return [JSON.parse(into.toString('utf8', 0, bytes)), descriptors[0] ?? -1]
  } catch (error) {
    end(key)
    throw new Error(`the process that acts as uid ${identity.uid} does not answer: ${messageOf(error)}`)
  }
}

function begin(key: string): Owner {
  const { socketPair, close } = libc()
  const [socket, theirs] = socketPair(ANSWER_MS)
  const child = processes().spawn(process.execPath, [entryFile('as-owner'), key], {
    ...SURROUNDINGS,
    stdio: ['ignore', 'ignore', 'inherit', theirs],
    detached: true, // a terminal's Ctrl-C is not meant for it
  })
  close(theirs)
  child.on('error', () => {}) // then it does not answer
  child.unref()
  const owner = { child, socket, idle: setTimeout(() => end(key), IDLE_MS).unref() }
  owners.set(key, owner)
  return owner
}

function end(key: string): void {
  const owner = owners.get(key)
  if (owner === undefined) return
  owners.delete(key)
  clearTimeout(owner.idle)
  libc().close(owner.socket)
  owner.child.kill('SIGKILL')
}

/** Ends all these processes. To be called before this process becomes another user, who must not ask them anything. */
export function endOwners(): void {
  for (const key of [...owners.keys()]) end(key)
}

/**
 * Asks a process that answers once, for where libc cannot be called. There, no process can pass a descriptor on, so root
 * opens the file that the user has just opened, if it is still there and belongs to that user.
 */
function askOnce(identity: Identity, directory: number, act: Act): [answer: Answer, fd: number] {
  const { stdout, error } = processes().spawnSync(
    process.execPath,
    [entryFile('as-owner'), JSON.stringify(identity), JSON.stringify(act)],
    { ...SURROUNDINGS, stdio: ['ignore', 'pipe', 'inherit', directory], timeout: ANSWER_MS },
  )
  if (error !== undefined) throw error
  if (stdout.length === 0) throw new Error(`the process that acts as uid ${identity.uid} does not answer`)
  const answer: Answer = JSON.parse(stdout.toString())
  if ('errno' in answer || act.act !== 'open') return [answer, -1]
  return [answer, openSame(directory, act, identity.uid, answer.inode)]
}

/**
 * Where libc cannot be called, a process of the user binds a socket below the directory, listens on it, and passes it on as Node
 * passes servers.
 *
 * @returns the server, with Node's own backlog
 */
export function listenAs(identity: Identity, directory: number, name: string): Promise<Server> {
  const act: Act = { act: 'bind', name }
  const child = processes().spawn(
    process.execPath,
    [entryFile('as-owner'), JSON.stringify(identity), JSON.stringify(act)],
    { ...SURROUNDINGS, stdio: ['ignore', 'ignore', 'inherit', directory, 'ipc'], detached: true },
  )
  const answered = new Promise<Server>((resolve, reject) => {
    const fail = () => reject(new Error(`the process that acts as uid ${identity.uid} does not answer`))
    setTimeout(fail, ANSWER_MS).unref()
    child.once('error', reject)
    child.once('exit', fail)
    child.once('message', (answer: Answer, server: unknown) => {
      if ('errno' in answer) reject(systemError(answer.errno, answer.syscall, name))
      else if (server instanceof net().Server) resolve(server)
      else fail()
    })
  })
  // SIGKILL leaves the process no time to close the socket: Node would remove the socket's name with it
  return answered.finally(() => child.kill('SIGKILL'))
}

const MAKES = constants.O_CREAT | constants.O_EXCL

function openSame(
  directory: number,
  { name, flags }: Extract<Act, { act: 'open' }>,
  uid: number,
  inode: string | undefined,
): number {
  const calls = systemCalls()
  const fd = calls.openat(directory, name, O_PATH === 0 ? flags & ~MAKES : O_PATH)
  const found = calls.status(fd)
  if (inodeOf(found) !== inode || found.uid !== uid) {
    calls.close(fd)
    throw new Error(`it was exchanged, or does not belong to uid ${uid}`)
  }
  if (O_PATH === 0 || (flags & O_PATH) !== 0) return fd
  try {
    return fs.openSync(descriptorPath(fd), flags & ~(MAKES | constants.O_NOFOLLOW))
  } finally {
    calls.close(fd)
  }
}

/** The descriptor at which the process has its end of the socket, or the directory. */
const GIVEN = 3

/** Runs in the process itself, which becomes the user for good. */
export function actAsOwner([identity = '', act]: readonly string[]): void {
  systemCalls() // the user may not be able to read the package
  try {
    become(JSON.parse(identity))
  } catch (error) {
    fs.writeSync(2, `${messageOf(error)}\n`) // the asking process gets no answer
    process.exit(1)
  }
  if (act !== undefined) {
    const once: Act = JSON.parse(act)
    if (once.act === 'bind') return listenBelow(GIVEN, once.name)
    fs.writeSync(1, JSON.stringify(answerTo(GIVEN, once, -1)[0]))
    return
  }
  const { sendMessage, receiveMessage, close } = libc()
  const into = Buffer.alloc(MESSAGE_BYTES)
  for (;;) {
    const { bytes, descriptors } = receiveMessage(GIVEN, into)
    if (bytes === 0) return
    const [directory = -1, socket = -1] = descriptors
    const [answer, fd] = answerTo(directory, JSON.parse(into.toString('utf8', 0, bytes)), socket)
    sendMessage(GIVEN, Buffer.from(JSON.stringify(answer)), fd < 0 ? [] : [fd])
    for (const each of [...descriptors, fd]) if (each >= 0) close(each)
  }
}

function listenBelow(directory: number, name: string): void {
  const answer = (what: Answer, passed?: Server) => process.send?.(what, passed)
  const server = net().createServer()
  server.once('error', error => answer(numbersOf(error)))
  server.listen(displayName(pathBelow(directory, name)), () => answer({}, server))
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL')) // see `listenAs`
}

function answerTo(directory: number, act: Act, socket: number): [answer: Answer, fd: number] {
  try {
    const fd = perform(directory, act, socket)
    return [fd < 0 ? {} : { inode: inodeOf(loadedCalls().status(fd)) }, fd]
  } catch (error) {
    return [numbersOf(error), -1]
  }
}
