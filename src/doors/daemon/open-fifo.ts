import { closeSync, constants, fstatSync, lstatSync, openSync } from 'node:fs'
import { Socket } from 'node:net'
import { descriptorPath } from '../../base/descriptor-path.js'
import { errnoOf, messageOf } from '../../base/errors.js'
import { toByteString } from '../../base/task/ref.js'
import { libc } from '../../system/libc.js'

/** Missing from Node's constants: opens a descriptor that refers to a file without opening the file itself. */
const O_PATH = 0o10000000

export interface Fifo {
  readonly socket: Socket
  /** False once the file was removed or replaced: then what others write arrives elsewhere. */
  isReachable(): boolean
}

/** Opens a FIFO for reading, and makes it if it is missing. @throws Error why not */
export function openFifo(path: string): Fifo {
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) makeFifo(path)
  return readerOf(path)
}

/** Follows no link, and fails if the name is taken. */
function makeFifo(path: string): void {
  try {
    libc().mkfifo(toByteString(path), 0o600)
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return // another daemon was faster
    throw new Error(`it cannot be made: ${messageOf(error)}`, { cause: error })
  }
}

/**
 * The name may be exchanged at any time by the owner of its directory, so the file is held first, then checked, then
 * opened. Open for writing too, it never reaches its end when a writer leaves.
 */
function readerOf(path: string): Fifo {
  const held = openSync(path, O_PATH | constants.O_NOFOLLOW)
  try {
    const { uid, ino, dev } = checkFifo(held)
    if (uid !== 0 && uid !== process.geteuid?.())
      throw new Error(`it belongs to uid ${uid}, who could command this daemon`)
    const fd = openSync(descriptorPath(held), constants.O_RDWR | constants.O_NONBLOCK)
    const socket = new Socket({ fd, readable: true, writable: false })
    return { socket, isReachable: () => !socket.destroyed && isAt(path, ino, dev) }
  } finally {
    closeSync(held)
  }
}

function checkFifo(fd: number) {
  const stats = fstatSync(fd)
  if (!stats.isFIFO()) throw new Error('there is another file of this name, which is not a FIFO')
  return stats
}

/** The inode is not given to another file while it is open. */
function isAt(path: string, ino: number, dev: number): boolean {
  try {
    const stats = lstatSync(path)
    return stats.ino === ino && stats.dev === dev
  } catch {
    return false // removed, or closed to us
  }
}
