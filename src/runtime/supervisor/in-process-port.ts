import { drawToken, MasterDecoder, sayFrame, tellFrame, WorkerDecoder } from '../ipc/frames.js'
import type { AsideReply, MasterMessage, WorkerMessage } from '../ipc/messages.js'
import type { PortExit, PortListener, WorkerPort } from './worker-port.js'

/** What the port offers to a worker in this process. */
interface InProcessHome {
  send(message: WorkerMessage | AsideReply, sent: () => void): void
  exit(code: number): void
}

/**
 * A worker in the master's own process, for tests and for programs that embed spoold. Messages arrive in a later turn
 * of the event loop, as copies, as they would from another process.
 *
 * A kill only cuts the connection: what the worker runs goes on, but its messages are dropped.
 */
export class InProcessPort implements WorkerPort {
  readonly pid = process.pid
  readonly hasOwnProcess = false
  readonly whenExited: Promise<PortExit>
  readonly #fromMaster = new MasterDecoder()
  readonly #worker: { hear(message: MasterMessage): void }
  readonly #token = drawToken()
  #hear: PortListener['heard'] = () => {}
  #hasExited = false
  #exit: (exit: PortExit) => void = () => {}

  constructor(open: (home: InProcessHome) => { hear(message: MasterMessage): void }) {
    this.whenExited = new Promise(resolve => {
      this.#exit = resolve
    })
    const fromWorker = new WorkerDecoder(this.#token)
    this.#worker = open({
      send: (message, sent) => {
        const frame = sayFrame(this.#token, message)
        this.#later(() => {
          for (const copy of fromWorker.push(frame)) this.#hear(copy)
        })
        setImmediate(sent)
      },
      exit: code => this.#end({ code, signal: null }),
    })
  }

  listen({ heard }: PortListener): void {
    this.#hear = heard
  }

  send(message: MasterMessage): void {
    const frame = tellFrame(this.#token, message)
    this.#later(() => {
      for (const copy of this.#fromMaster.push(frame)) this.#worker.hear(copy)
    })
  }

  kill(): void {
    this.#end({ code: null, signal: 'SIGKILL' })
  }

  #end(exit: PortExit): void {
    this.#hasExited = true
    this.#exit(exit)
  }

  #later(deliver: () => void): void {
    setImmediate(() => {
      if (!this.#hasExited) deliver()
    })
  }
}
