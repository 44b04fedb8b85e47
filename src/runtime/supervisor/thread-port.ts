import { Worker as Thread } from 'node:worker_threads'
import { entryFile } from '../../base/package-root.js'
import { type AsideReply, type MasterMessage, THREAD_IS_UP, type WorkerMessage } from '../ipc/messages.js'
import { guarded, type PortExit, type WorkerPort } from './worker-port.js'

/** A worker in a thread of this process. A kill ends the thread, whatever it is doing, and closes its files. */
export class ThreadPort implements WorkerPort {
  readonly pid = process.pid
  readonly hasOwnProcess = false
  readonly whenExited: Promise<PortExit>
  readonly #thread = new Thread(entryFile('worker-thread'))
  readonly #whenUp: Promise<unknown>
  #isKilled = false
  #hasExited = false

  constructor() {
    this.#thread.on('error', () => {}) // its exit follows
    this.#whenUp = new Promise(resolve => this.#thread.once('message', resolve))
    this.whenExited = new Promise(resolve => {
      this.#thread.once('exit', code => {
        this.#hasExited = true
        resolve(this.#isKilled ? { code: null, signal: 'SIGKILL' } : { code, signal: null })
      })
    })
  }

  listen(hear: (message: WorkerMessage | AsideReply) => void): void {
    const heard = guarded(this, hear)
    this.#thread.on('message', message => message === THREAD_IS_UP || heard(message))
  }

  send(message: MasterMessage): void {
    this.#thread.postMessage(message)
  }

  kill(): void {
    if (!this.#hasExited) this.#isKilled = true
    void this.#whenUp.then(() => this.#thread.terminate())
  }
}
