import type { AsideReply, MasterMessage, WorkerMessage } from '../ipc/messages.js'
import type { PortExit, WorkerPort } from './worker-port.js'

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
  readonly #worker: { hear(message: MasterMessage): void }
  #hear: (message: WorkerMessage | AsideReply) => void = () => {}
  #hasExited = false
  #exit: (exit: PortExit) => void = () => {}

  constructor(open: (home: InProcessHome) => { hear(message: MasterMessage): void }) {
    this.whenExited = new Promise(resolve => {
      this.#exit = resolve
    })
    this.#worker = open({
      send: (message, sent) => {
        this.#later(message, copy => this.#hear(copy))
        setImmediate(sent)
      },
      exit: code => this.#end({ code, signal: null }),
    })
  }

  listen(hear: (message: WorkerMessage | AsideReply) => void): void {
    this.#hear = hear
  }

  send(message: MasterMessage): void {
    this.#later(message, copy => this.#worker.hear(copy))
  }

  kill(): void {
    this.#end({ code: null, signal: 'SIGKILL' })
  }

  #end(exit: PortExit): void {
    this.#hasExited = true
    this.#exit(exit)
  }

  #later<Message>(message: Message, deliver: (copy: Message) => void): void {
    const copy = JSON.parse(JSON.stringify(message)) as Message
    setImmediate(() => {
      if (!this.#hasExited) deliver(copy)
    })
  }
}
