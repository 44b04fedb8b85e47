import { fstatSync, type Stats, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { frameOf, MasterDecoder } from '../ipc/frames.js'
import type { MasterMessage, WorkerMessage } from '../ipc/messages.js'

/** The worker's end of the socket pair. */
const ROAD_FD = 3

/** The original function, which does not send the text to the master as the replacement in own-output.ts does. */
const writeToLog = writeSync

/** The channel between a worker process and its master. */
export class Road {
  readonly #socket = new Socket({ fd: ROAD_FD })
  readonly #inode = inodeOf()
  readonly #decoder = new MasterDecoder()

  /** @param cut called when the master is gone */
  constructor(hear: (message: MasterMessage) => void, cut: () => void) {
    this.#socket.on('error', () => {}) // the master died with something unread: `close` follows
    this.#socket.on('close', cut)
    this.#socket.on('data', chunk => {
      for (const message of this.#decoder.push(chunk)) hear(message)
    })
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed
  }

  /** Sends a message. @param sent called when the message has been handed to the system, or cannot be delivered */
  say(message: WorkerMessage, sent: () => void): void {
    if (!this.isOpen) return sent()
    if (this.#inode === undefined || inodeOf() !== this.#inode) leave()
    this.#socket.write(frameOf(this.#decoder.token, message), sent)
  }

  /** Closes the channel after the last message. @param heard called when the master has read all messages */
  end(heard: () => void): void {
    if (!this.isOpen) return heard()
    this.#socket.removeAllListeners('close').once('close', heard)
    this.#socket.end()
  }
}

function inodeOf(): number | undefined {
  let stats: Stats
  try {
    stats = fstatSync(ROAD_FD)
  } catch {
    return undefined
  }
  return stats.isSocket() ? stats.ino : undefined
}

/**
 * Ends this process after a handler has closed the descriptor. Its number may now be that of a task, which must not be written.
 */
function leave(): never {
  writeToLog(2, `the process (pid: ${process.pid}) ends: something has closed its descriptor ${ROAD_FD}\n`)
  process.kill(process.pid, 'SIGKILL')
  throw new Error('unreachable')
}

/**
 * Returns the function that handlers get in place of the one that sends to the parent of their process or thread. The parent is
 * the master, which would take each message for one of the worker.
 *
 * @param name the name of the replaced function
 * @param say called at the first use, with a text for the log
 */
export function sendNothing(name: string, say: (text: string) => void): (...args: unknown[]) => boolean {
  let isSaid = false
  return (...args) => {
    if (!isSaid)
      say(`what a handler sends by ${name} reaches nobody: the channel is between spoold and its worker\n`)
    isSaid = true
    const sent = args.at(-1)
    if (typeof sent === 'function') process.nextTick(sent as () => void, null)
    return true
  }
}
