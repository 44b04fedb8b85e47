import type { BegunTask, RunEnd } from '../../base/task/report.js'
import type { Hide } from '../../formats/protocol/hide.js'
import type { Marks } from '../../runtime/ipc/marks.js'
import type { MasterMessage } from '../../runtime/ipc/messages.js'
import type { PortExit, PortListener, WorkerPort } from '../../runtime/supervisor/worker-port.js'
import { type Tell, tellBegun, tellEnded, tellFailure, tellLost } from '../../runtime/tasks/lifecycle.js'

interface TellingContext {
  /** The worker's name. */
  readonly name: string
  readonly queue: string
  readonly tell: Tell
  /**
   * Calls `changed` with true when somebody begins to listen, and with false when nobody listens any more.
   *
   * @returns a function that ends this
   */
  watch(changed: (isHeard: boolean) => void): () => void
  /** Hides values in events. */
  readonly hide: Hide
}

/**
 * Emits the application's events for one worker, each once and in order. While nobody listens, the worker does not report its
 * runs.
 */
export class TellingPort implements WorkerPort {
  readonly pid: number
  readonly hasOwnProcess: boolean
  readonly marks: Marks
  readonly whenExited: Promise<PortExit>
  readonly #port: WorkerPort
  readonly #context: TellingContext
  /** The tasks that run, by the number of their run. */
  readonly #begun = new Map<number, BegunTask>()
  #unwatch: (() => void) | undefined

  constructor(port: WorkerPort, context: TellingContext) {
    this.#port = port
    this.#context = context
    this.pid = port.pid
    this.hasOwnProcess = port.hasOwnProcess
    this.marks = port.marks
    this.whenExited = port.whenExited.then(exit => {
      this.#exited()
      return exit
    })
  }

  listen({ heard, garbled }: PortListener): void {
    this.#port.listen({
      garbled,
      heard: message => {
        switch (message.type) {
          case 'run-began':
            return this.#began(message.number, message.task)
          case 'run-ended':
            return this.#ended(message.number, message.end)
          case 'run-died':
            return this.#died(message.task, message.end)
          case 'ready':
            this.#ready()
        }
        heard(message)
      },
    })
  }

  send(message: MasterMessage): void {
    this.#port.send(message)
  }

  kill(): void {
    this.#port.kill()
  }

  #ready(): void {
    const { name, queue, tell, watch } = this.#context
    this.#unwatch = watch(isOn => this.#port.send({ type: 'follow', isOn }))
    tell('worker-started', { worker: name, queue })
  }

  #began(number: number, task: BegunTask): void {
    const { tell, name } = this.#context
    const begun = this.#shown(task)
    this.#begun.set(number, begun)
    tellBegun(tell, name, begun)
  }

  #ended(number: number, { detail, ...end }: RunEnd): void {
    const { tell, name, hide } = this.#context
    const begun = this.#begun.get(number)
    if (begun === undefined) return
    this.#begun.delete(number)
    tellEnded(tell, name, begun, { ...end, detail: detail === undefined ? undefined : hide.text(detail) })
  }

  #died(task: BegunTask, end: RunEnd): void {
    const { tell, name } = this.#context
    tellFailure(tell, name, this.#shown(task), end)
  }

  #shown({ args, kwargs, ...task }: BegunTask): BegunTask {
    const { hide } = this.#context
    return { ...task, args: hide.json(args), kwargs: hide.json(kwargs) }
  }

  #exited(): void {
    if (this.#unwatch === undefined) return // the worker was never ready
    this.#unwatch()
    const { name, queue, tell } = this.#context
    for (const begun of this.#begun.values()) tellLost(tell, name, begun)
    this.#begun.clear()
    tell('worker-terminated', { worker: name, queue })
  }
}
