import { Queue } from '../../base/queue.js'

/**
 * Limits the number of requests per turn of the event loop, for all connections together. Otherwise thousands of requests in one
 * chunk would keep everything else waiting, above all new connections: libuv accepts one per turn.
 */
export class FairTurns {
  readonly #size: number
  readonly #waiting = new Queue<() => void>()
  #left: number
  #isSet = false

  /** @param size requests per turn */
  constructor(size: number) {
    this.#size = size
    this.#left = size
  }

  /** Resolves when it is the caller's turn; undefined: it is now. First come, first served. */
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
