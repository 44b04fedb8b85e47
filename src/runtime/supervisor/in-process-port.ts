import { Worker as Thread } from 'node:worker_threads'
import { entryFile } from '../../base/package-root.js'
import { drawToken, frameOf } from '../ipc/frames.js'
import { Marks } from '../ipc/marks.js'
import { type MasterMessage, THREAD_IS_UP, type WorkerMessage } from '../ipc/messages.js'
import { guarded, type PortExit, type PortListener, type WorkerPort } from './worker-port.js'

/** What the port offers to a worker in this process. */
interface InProcessHome {
  readonly marks: Marks
  send(message: WorkerMessage, sent: () => void): void
  exit(code: number): void
}

/**
 * A worker in the master's own process, for tests and for programs that embed spoold. Messages arrive as copies and in a later turn
 * of the event loop, as they would from another process.
 *
 * A kill only cuts the connection: what the worker runs goes on, but its messages are dropped.
 */
export class InProcessPort implements WorkerPort {
  readonly pid = process.pid
  readonly hasOwnProcess = false
  readonly marks = new Marks({ memory: new ArrayBuffer(Marks.BYTES) })
  readonly whenExited: Promise<PortExit>
  readonly #worker: { hear(message: MasterMessage): void }
  #hear: PortListener['heard'] = () => {}
  #hasExited = false
  #exit: (exit: PortExit) => void = () => {}

  constructor(open: (home: InProcessHome) => { hear(message: MasterMessage): void }) {
    this.whenExited = new Promise(resolve => {
      this.#exit = resolve
    })
    this.#worker = open({
      marks: this.marks,
      send: (message, sent) => {
        this.#later(copyOf(message), copy => this.#hear(copy))
        setImmediate(sent)
      },
      exit: code => this.#end({ code, signal: null }),
    })
  }

  listen({ heard }: PortListener): void {
    this.#hear = heard
  }

  send(message: MasterMessage): void {
    this.#later(copyOf(message), copy => this.#worker.hear(copy))
  }

  kill(): void {
    this.#end({ code: null, signal: 'SIGKILL' })
  }

  #end(exit: PortExit): void {
    this.#hasExited = true
    this.#exit(exit)
  }

  #later<Message>(message: Message, deliver: (message: Message) => void): void {
    setImmediate(() => {
      if (!this.#hasExited) deliver(message)
    })
  }
}

/** A copy by way of JSON, as in a frame. */
function copyOf<Message>(message: Message): Message {
  return JSON.parse(JSON.stringify(message))
}

/** A worker in a thread of this process. A kill ends the thread, whatever it is doing, and closes its files. */
export class ThreadPort implements WorkerPort {
  readonly pid = process.pid
  readonly hasOwnProcess = false
  readonly whenExited: Promise<PortExit>
  readonly #memory = new SharedArrayBuffer(Marks.BYTES)
  readonly marks = new Marks({ memory: this.#memory })
  readonly #thread = new Thread(entryFile('worker-thread'), { workerData: this.#memory })
  readonly #token = drawToken()
  readonly #whenUp: Promise<unknown>
  #isKilled = false

  constructor() {
    this.#thread.on('error', () => {}) // its exit follows
    this.#whenUp = new Promise(resolve => this.#thread.once('message', resolve))
    this.whenExited = new Promise(resolve => {
      this.#thread.once('exit', code => {
        resolve(this.#isKilled ? { code: null, signal: 'SIGKILL' } : { code, signal: null })
      })
    })
  }

  listen(listener: PortListener): void {
    const read = guarded(this.#token, listener)
    this.#thread.on('message', posted => posted === THREAD_IS_UP || read(posted))
  }

  send(message: MasterMessage): void {
    this.#thread.postMessage(frameOf(this.#token, message))
  }

  kill(): void {
    this.#isKilled = true
    void this.#whenUp.then(() => this.#thread.terminate())
  }
}
