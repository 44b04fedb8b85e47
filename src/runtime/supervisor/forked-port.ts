import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { setImmediate, setTimeout as wait } from 'node:timers/promises'
import { quietly } from '../../base/errors.js'
import { entryFile } from '../../base/package-root.js'
import { systemCalls } from '../../system/libc.js'
import { openShared } from '../../system/shared-memory.js'
import { drawToken, frameOf } from '../ipc/frames.js'
import { Marks } from '../ipc/marks.js'
import type { MasterMessage, WorkerMessage } from '../ipc/messages.js'
import { guarded, type PortExit, type PortListener, type WorkerPort } from './worker-port.js'

const STDERR = 2
/** The worker's end of the socket pair (runtime/worker/road.ts). */
const ROAD_FD = 3
const LAST_WORDS_MS = 1000
/** A worker exits after these messages. */
const LAST_WORDS: ReadonlySet<WorkerMessage['type']> = new Set(['drained', 'faulted', 'unloadable'])
/**
 * Node's exit waits for its threads: for ever if one is blocked in a system call that a handler made (opening a pipe,
 * reading from a dead network disk), and rarely for one of V8's own (https://github.com/nodejs/node/issues/54918).
 */
const EXIT_MS = 5000

/** How a worker process is forked. */
interface ForkOptions {
  /** The descriptor to which the output of the worker and its handlers goes. */
  readonly logFd: number
  /** What runs in the process; default: a worker. */
  readonly entry?: 'worker' | 'aside'
  /** Shared memory for its hosts: passed as file descriptors after the socket (runtime/ipc/messages.ts, FIRST_AREA_FD). */
  readonly areas: readonly number[]
}

/** A worker in its own process. */
export class ForkedPort implements WorkerPort {
  readonly #child: ChildProcess
  /** Absent if the process could not be forked. */
  readonly #socket: Socket | undefined
  readonly #token = drawToken()
  readonly marks: Marks
  readonly whenExited: Promise<PortExit>

  /** @throws when the system has no memory for another process */
  constructor({ logFd, areas, entry = 'worker' }: ForkOptions) {
    const flags = process.execArgv.filter(arg => !arg.startsWith('--inspect'))
    const shared = entry === 'worker' ? quietly(openMarks) : undefined
    this.marks = new Marks(shared?.mapping)
    try {
      this.#child = spawn(process.execPath, [...flags, entryFile(entry)], {
        stdio: [
          'ignore',
          logFd === STDERR ? 'inherit' : logFd,
          logFd,
          'pipe',
          shared?.fd ?? 'ignore',
          ...areas,
        ],
      })
    } catch (error) {
      this.marks.close()
      throw error
    } finally {
      if (shared !== undefined) closeSync(shared.fd)
    }
    this.#socket = this.#child.stdio?.[ROAD_FD] as Socket | undefined
    this.#socket?.on('error', () => {}) // the process is dead: its exit follows
    this.whenExited = exitOf(this.#child, this.#socket).finally(() => this.marks.close())
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** False if the process could not be forked. */
  get hasOwnProcess(): boolean {
    return this.#child.pid !== undefined
  }

  /** False once the process is known to have ended. */
  get isAlive(): boolean {
    const { exitCode, signalCode } = this.#child
    return this.#socket?.destroyed === false && exitCode === null && signalCode === null
  }

  listen({ heard, garbled }: PortListener): void {
    const hear = (message: WorkerMessage) => {
      heard(message)
      if (LAST_WORDS.has(message.type)) this.#killUnlessItExits()
    }
    this.#socket?.on('data', guarded(this.#token, { heard: hear, garbled }))
  }

  #killUnlessItExits(): void {
    const timer = setTimeout(() => this.kill(), EXIT_MS)
    void this.whenExited.then(() => clearTimeout(timer))
  }

  send(message: MasterMessage): void {
    if (this.#socket?.writable === true) this.#socket.write(frameOf(this.#token, message))
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}

/** Opens a process aside, which acts on task files and runs no tasks. @throws Error when the system has no memory for a process */
export function openAside(logFd: number): WorkerPort {
  return new ForkedPort({ entry: 'aside', logFd, areas: [] })
}

/** @throws Error why a worker cannot share memory with this process */
function openMarks() {
  const fd = openShared(Marks.BYTES)
  try {
    return { fd, mapping: systemCalls().mapShared(fd, Marks.BYTES) }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

async function exitOf(child: ChildProcess, socket: Socket | undefined): Promise<PortExit> {
  const exit = await new Promise<PortExit>(resolve => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    child.on('error', error => {
      if (child.pid === undefined) resolve({ code: null, signal: null, unforked: error.message }) // no exit follows
    })
  })
  // the exit event may come before the last messages have been read; on a busy machine, the end of the wait may, too
  if (socket?.destroyed === false)
    await Promise.race([
      new Promise(read => socket.once('close', read)),
      wait(LAST_WORDS_MS).then(() => setImmediate()),
    ])
  return exit
}

/**
 * A worker process that is forked before its options are known. Booting takes most of a worker's start, so the worker boots while
 * the master loads the rest of the daemon.
 *
 * States: booting → taken | gone.
 */
export class SpareWorker {
  #port: ForkedPort | undefined

  constructor(options: ForkOptions) {
    try {
      this.#port = new ForkedPort(options)
    } catch {} // out of memory or processes: the roster then forks a worker of its own, and reports the error
  }

  /** Hands over the process, once; undefined if it is gone or was taken. */
  take(): ForkedPort | undefined {
    const port = this.#port
    this.#port = undefined
    return port?.isAlive ? port : undefined
  }

  /** Kills the process if it was not taken. */
  end(): void {
    this.take()?.kill()
  }
}
