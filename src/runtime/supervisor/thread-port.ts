import { Worker as Thread } from 'node:worker_threads'
import { entryFile } from '../../base/package-root.js'
import { drawToken, NoFrame, tellFrame, WorkerDecoder } from '../ipc/frames.js'
import { type MasterMessage, THREAD_IS_UP } from '../ipc/messages.js'
import { guarded, type PortExit, type PortListener, type WorkerPort } from './worker-port.js'

/** A worker in a thread of this process. A kill ends the thread, whatever it is doing, and closes its files. */
export class ThreadPort implements WorkerPort {
  readonly pid = process.pid
  readonly hasOwnProcess = false
  readonly whenExited: Promise<PortExit>
  readonly #thread = new Thread(entryFile('worker-thread'))
  readonly #token = drawToken()
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

  listen(listener: PortListener): void {
    const decoder = new WorkerDecoder(this.#token)
    const read = guarded<unknown>(posted => {
      if (!(posted instanceof Uint8Array)) throw new NoFrame('it is no frame')
      return decoder.push(Buffer.from(posted))
    }, listener)
    this.#thread.on('message', posted => posted === THREAD_IS_UP || read(posted))
  }

  send(message: MasterMessage): void {
    this.#thread.postMessage(tellFrame(this.#token, message))
  }

  kill(): void {
    if (!this.#hasExited) this.#isKilled = true
    void this.#whenUp.then(() => this.#thread.terminate())
  }
}
