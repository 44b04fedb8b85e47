import { Queue } from '../../base/queue.js'
import { boundedFailure } from '../../base/task/failure-text.js'
import { stackOf } from '../../base/task/stack.js'
import type { WorkerMessage } from '../ipc/messages.js'

interface SignalRunnerOptions {
  /** Calls the handler of a signal. */
  handle(number: number): unknown
  send(message: WorkerMessage): void
}

/** Runs the handlers of the signals that the master gives, and reports when each begins and ends. */
export class SignalRunner {
  readonly #options: SignalRunnerOptions
  readonly #waiting = new Queue<number>()
  #running = 0

  constructor(options: SignalRunnerOptions) {
    this.#options = options
  }

  get waiting(): number {
    return this.#waiting.size
  }

  get running(): number {
    return this.#running
  }

  take(number: number): void {
    this.#waiting.push(number)
  }

  /** Hands back the signals that have not been started. */
  handBack(): void {
    for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop())
      this.#options.send({ type: 'signal-returned', number: next })
  }

  /** Runs the handler that has waited longest, until it has ended. */
  async run(): Promise<void> {
    const number = this.#waiting.pop()
    if (number === undefined) return
    this.#running++
    await this.#handle(number)
    this.#running--
  }

  async #handle(number: number): Promise<void> {
    const { handle, send } = this.#options
    send({ type: 'signal-started', number })
    try {
      await handle(number)
      send({ type: 'signal-ended', number })
    } catch (thrown) {
      send({ type: 'signal-ended', number, error: boundedFailure(stackOf(thrown)) })
    }
  }
}
