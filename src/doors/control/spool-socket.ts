import { closeSync, constants } from 'node:fs'
import { lstat } from 'node:fs/promises'
import { connect, type Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { withDeadline } from '../../base/clock.js'
import { errnoOf, quietly } from '../../base/errors.js'
import { crypto } from '../../base/on-demand.js'
import { toByteString, toFsPath } from '../../base/task/ref.js'
import { CONTROL_LOCK, controlNames } from '../../engines/control/names.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { makeState } from '../../engines/spool/state-directory.js'
import {
  chmodSync,
  type Directory,
  holdDirectory,
  openSync,
  renameSync,
  statusOf,
  unlinkSync,
} from '../../system/files/anchored-path.js'
import { isLocal } from '../../system/files/stamps.js'
import { tryHold } from '../../system/libc.js'
import { type ListenSettings, startServer } from '../net/listen.js'

/** The control socket of this daemon in one spool. */
interface SpoolSocket {
  readonly name: string
  /** False once `.spoold` or the socket in it was removed or replaced, so that no client finds this socket. */
  isReachable(): Promise<boolean>
  /**
   * Stops listening, and removes the socket's file if it is still that of this daemon. If the disk does not answer, the file is
   * left to the next daemon, and the socket to the end of this one: Node looks for its file, too, when it stops listening.
   */
  close(): Promise<void>
}

/** The kernel caps the backlog at net.core.somaxconn. */
const BACKLOG = 4096
/** How long another daemon may hold the lock while it takes its name. */
const LOCK_MS = 2000
const LOCK_RETRY_MS = 20
/** How long the disk may take to answer before it counts as hanging. */
const ANSWER_MS = 1000

/**
 * Listens in the spool's `.spoold`, under a name that no living daemon has. A live socket is never taken over; one that a dead
 * daemon left is replaced.
 *
 * The directory stays open until the socket is closed, and every path starts from it, because its own path may be longer than the
 * 107 bytes of a socket's address, and whoever may write to the spool may exchange the directory.
 *
 * @param spool its real path
 * @throws Error why it cannot listen there
 */
export async function listenInSpool(spool: string, accept: ListenSettings['accept']): Promise<SpoolSocket> {
  const bytes = toByteString(spool)
  const directory = holdDirectory(`${makeState(bytes)}/.`, `${bytes}/${STATE_DIRECTORY}`)
  const hidden = `${directory.path}/.control.${crypto().randomBytes(4).toString('hex')}`
  let server: Server | undefined
  try {
    server = await startServer({ path: hidden }, { backlog: BACKLOG, accept })
    chmodSync(hidden, 0o600)
    const name = await takeName(directory, hidden, await isLocal(bytes))
    return socketOf(server, directory, name, `${bytes}/${STATE_DIRECTORY}/${name}`)
  } catch (error) {
    server?.close()
    directory.release()
    throw error
  } finally {
    removeQuietly(hidden)
  }
}

/** @returns the name under which the socket can be reached */
async function takeName({ path }: Directory, hidden: string, isLocal: boolean): Promise<string> {
  const lock = await takeLock(`${path}/${CONTROL_LOCK}`)
  try {
    for (const name of controlNames(isLocal)) {
      if (tryTake(hidden, `${path}/${name}`)) return name
      if (!(await isDead(`${path}/${name}`))) continue
      unlinkSync(`${path}/${name}`)
      if (tryTake(hidden, `${path}/${name}`)) return name
    }
    throw new Error(`as many daemons as can have a control socket in ${STATE_DIRECTORY} have one`)
  } finally {
    if (lock !== undefined) closeSync(lock)
  }
}

/**
 * Takes the lock for names. Without it, two daemons that find the same dead socket would remove each other's new one. Where there
 * are no record locks, returns undefined: at worst, one of the two daemons cannot be reached.
 */
async function takeLock(path: string): Promise<number | undefined> {
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NONBLOCK, 0o600)
  const giveUpAt = performance.now() + LOCK_MS
  while (performance.now() < giveUpAt) {
    const isHeld = await tryHold(fd).catch(() => undefined)
    if (isHeld === true) return fd
    if (isHeld === undefined) break
    await sleep(LOCK_RETRY_MS)
  }
  closeSync(fd)
  return undefined
}

/**
 * Gives the socket its name, unless the name is taken. Renames it rather than linking it, because below some servers of FUSE
 * (bindfs) a link is a file of its own, on which nobody listens.
 */
function tryTake(from: string, to: string): boolean {
  if (statusOf(to) !== undefined) return false
  renameSync(from, to)
  return true
}

/**
 * True for a socket on which no process of this machine listens. False for a file that is no socket, because it is not ours to
 * remove.
 */
function isDead(path: string): Promise<boolean> {
  if (statusOf(path)?.isSocket !== true) return Promise.resolve(false)
  return new Promise(resolve => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.once('error', error => resolve(errnoOf(error) === 'ECONNREFUSED'))
  })
}

/** @param clientPath where clients look for the socket, a byte string */
function socketOf(server: Server, directory: Directory, name: string, clientPath: string): SpoolSocket {
  const path = `${directory.path}/${name}`
  const inode = statusOf(path)?.inode
  return {
    name,
    // asynchronous, because a disk that stalls must stall no other spool
    async isReachable() {
      const stats = await lstat(toFsPath(clientPath), { bigint: true }).catch(() => undefined)
      return inode !== undefined && stats?.ino === inode
    },
    async close() {
      const answers = await withDeadline(
        this.isReachable().then(() => true),
        ANSWER_MS,
        () => false,
      )
      if (!answers) return void server.unref()
      const found = quietly(() => statusOf(path)) // the directory may have been closed to this user
      if (inode !== undefined && found?.inode === inode) removeQuietly(path)
      server.close(() => directory.release())
    },
  }
}

function removeQuietly(path: string): void {
  try {
    unlinkSync(path)
  } catch {} // the file is gone, or its directory is
}
