import { Queue } from '../base/queue.js'

/**
 * Shares out each turn of the event loop: so many requests, of all connections together, and then whoever else waits for
 * the loop. Otherwise thousands of requests that came in one chunk keep everybody waiting, new connections most of all:
 * libuv accepts one a turn.
 */
export class FairTurns {
  readonly #size: number
  readonly #waiting = new Queue<() => void>()
  #left: number
  #isSet = false

  /** @param size requests a turn */
  constructor(size: number) {
    this.#size = size
    this.#left = size
  }

  /** Resolves when it is the caller's turn; first come, first served. */
  take(): Promise<void> | undefined {
    this.#set()
    if (this.#left > 0 && this.#waiting.size === 0) {
      this.#left--
      return undefined
    }
    return new Promise(go => this.#waiting.push(go))
  }

  #set(): void {
    if (this.#isSet) return
    this.#isSet = true
    setImmediate(() => {
      this.#isSet = false
      this.#left = this.#size
      for (; this.#left > 0 && this.#waiting.size > 0; this.#left--) this.#waiting.pop()?.()
      if (this.#waiting.size > 0) this.#set()
    })
  }
}
