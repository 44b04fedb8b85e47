import type { MasterMessage, WorkerMessage } from '../ipc/messages.js'

/** Sends questions of handlers to the master, and matches its answers to them. */
export class MasterQuestions {
  readonly #send: (message: WorkerMessage) => void
  readonly #waiting = new Map<number, { resolve(values: Buffer[]): void; reject(error: Error): void }>()
  #next = 0

  constructor(send: (message: WorkerMessage) => void) {
    this.#send = send
  }

  ask(name: string, values: readonly Buffer[]): Promise<Buffer[]> {
    const id = this.#next++
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#send({ type: 'ask', id, name, values: values.map(value => value.toString('latin1')) })
    })
  }

  answered({ id, values, error }: Extract<MasterMessage, { type: 'answer' }>): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error === undefined) waiting?.resolve(values.map(value => Buffer.from(value, 'latin1')))
    else waiting?.reject(new Error(error))
  }
}
