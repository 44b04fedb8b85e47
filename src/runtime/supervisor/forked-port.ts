import { type ChildProcess, fork } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import { entryFile } from '../../base/package-root.js'
import type { AsideReply, MasterMessage, WorkerMessage } from '../ipc/messages.js'
import { guarded, type PortExit, type WorkerPort } from './worker-port.js'

const STDERR = 2
const ENTRY = entryFile('worker')
const LAST_WORDS_MS = 1000
/** A worker exits after these messages. */
const LAST_WORDS: ReadonlySet<(WorkerMessage | AsideReply)['type']> = new Set([
  'drained',
  'faulted',
  'unloadable',
  'marks-cleared',
  'cancelled-buried',
])
/**
 * Node's exit waits for its threads: for ever if one is blocked in a system call that a handler made (opening a pipe,
 * reading from a dead network disk), and rarely for one of V8's own (https://github.com/nodejs/node/issues/54918).
 */
const EXIT_MS = 5000

/** What a worker process is forked with. */
export interface ForkOptions {
  /** Where its output and that of its handlers goes. */
  readonly logFd: number
  /** Shared memory for its hosts: passed as file descriptors after the IPC channel (runtime/ipc/messages.ts, FIRST_AREA_FD). */
  readonly areas: readonly number[]
}

/** A worker in its own process. */
export class ForkedPort implements WorkerPort {
  readonly #child: ChildProcess
  readonly whenExited: Promise<PortExit>

  /** @throws when the system has no memory for another process */
  constructor({ logFd, areas }: ForkOptions) {
    this.#child = fork(ENTRY, [], {
      stdio: ['ignore', logFd === STDERR ? 'inherit' : logFd, logFd, 'ipc', ...areas],
      execArgv: process.execArgv.filter(arg => !arg.startsWith('--inspect')),
    })
    this.whenExited = exitOf(this.#child)
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** False if it could not be forked. */
  get hasOwnProcess(): boolean {
    return this.#child.pid !== undefined
  }

  /** False once the process is known to have ended. */
  get isAlive(): boolean {
    const { connected, exitCode, signalCode } = this.#child
    return connected && exitCode === null && signalCode === null
  }

  listen(hear: (message: WorkerMessage | AsideReply) => void): void {
    const heard = guarded(this, message => {
      hear(message)
      if (LAST_WORDS.has(message.type)) this.#killUnlessItExits()
    })
    this.#child.on('message', heard)
    // Node's own listener is for handles, which nobody sends here, and asserts what a handler can send
    this.#child.removeAllListeners('internalMessage')
  }

  #killUnlessItExits(): void {
    const timer = setTimeout(() => this.kill(), EXIT_MS)
    void this.whenExited.then(() => clearTimeout(timer))
  }

  send(message: MasterMessage): void {
    if (this.#child.connected) this.#child.send(message, () => {})
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}

async function exitOf(child: ChildProcess): Promise<PortExit> {
  const exit = await new Promise<PortExit>(resolve => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    child.on('error', error => {
      if (child.pid === undefined) resolve({ code: null, signal: null, unforked: error.message }) // no exit follows
    })
  })
  // the exit event may come before the last messages have been read
  if (child.connected && exit.unforked === undefined)
    await Promise.race([new Promise(read => child.once('disconnect', read)), wait(LAST_WORDS_MS)])
  return exit
}
