import { closeSync, constants } from 'node:fs'
import { lstat } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
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

/** The control socket of this daemon in one spool. */
interface SpoolSocket {
  readonly name: string
  /** False once `.spoold` or the socket in it was removed or replaced: then no client finds this one. */
  isReachable(): Promise<boolean>
  /** Stops listening, and removes the socket if it is still ours. */
  close(): void
}

type Accept = (socket: Socket, listening: Server) => void

/** The kernel caps it at net.core.somaxconn. */
const BACKLOG = 4096
/** How long another daemon may take to take its own name. */
const LOCK_MS = 2000
const LOCK_RETRY_MS = 20

/**
 * Listens in the spool's `.spoold`, under a name that no living daemon has: a live socket is never taken over, one that a
 * dead daemon left is replaced.
 *
 * The directory stays open until the socket is closed, and every path starts from it: its own path may be longer than the
 * 107 bytes of a socket's address, and whoever may write to the spool may exchange it.
 *
 * @param spool its real path
 * @throws Error why it cannot listen there
 */
export async function listenInSpool(spool: string, accept: Accept): Promise<SpoolSocket> {
  const bytes = toByteString(spool)
  const directory = holdDirectory(`${makeState(bytes)}/.`, `${bytes}/${STATE_DIRECTORY}`)
  const hidden = `${directory.path}/.control.${crypto().randomBytes(4).toString('hex')}`
  let server: Server | undefined
  try {
    server = await startServer(hidden, accept)
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

function startServer(path: string, accept: Accept): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, socket => accept(socket, server))
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path, backlog: BACKLOG }, () => {
      server.off('error', reject)
      server.on('error', () => {}) // a connection could not be accepted: out of descriptors
      resolve(server)
    })
  })
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
 * Two daemons that find the same dead socket would otherwise remove each other's new one. Without record locks, there is no
 * lock: at worst, one of the two cannot be reached.
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

/** Not by a link: that is a file of its own below some servers of FUSE (bindfs), and nobody listens on it. */
function tryTake(from: string, to: string): boolean {
  if (statusOf(to) !== undefined) return false
  renameSync(from, to)
  return true
}

/** A socket on which no process of this machine listens. A file that is no socket is not ours to remove. */
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

/** @param clientPath where clients look for it, a byte string */
function socketOf(server: Server, directory: Directory, name: string, clientPath: string): SpoolSocket {
  const path = `${directory.path}/${name}`
  const inode = statusOf(path)?.inode
  return {
    name,
    // by a thread: a disk that stalls is to stall no other spool
    async isReachable() {
      const stats = await lstat(toFsPath(clientPath), { bigint: true }).catch(() => undefined)
      return inode !== undefined && stats?.ino === inode
    },
    close() {
      const found = quietly(() => statusOf(path)) // somebody may have closed the directory to us
      if (inode !== undefined && found?.inode === inode) removeQuietly(path)
      server.close(() => directory.release())
    },
  }
}

function removeQuietly(path: string): void {
  try {
    unlinkSync(path)
  } catch {} // it is gone, or its directory is
}
