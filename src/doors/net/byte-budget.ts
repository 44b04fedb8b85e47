import { Queue } from '../../base/queue.js'

/** Bounds the bytes in flight to the disk, across all connections; first come, first served. */
export class ByteBudget {
  #left: number
  readonly #waiting = new Queue<{ readonly bytes: number; readonly go: () => void }>()

  constructor(bytes: number) {
    this.#left = bytes
  }

  /**
   * Takes `bytes` from the budget. Returns undefined if any of it is left and nobody waits, else resolves when it is the caller's
   * turn. One request may overdraw the budget, so that a request larger than all of it can run.
   */
  take(bytes: number): Promise<void> | undefined {
    if (this.#waiting.size === 0 && this.#left > 0) {
      this.#left -= bytes
      return undefined
    }
    return new Promise(go => this.#waiting.push({ bytes, go }))
  }

  give(bytes: number): void {
    this.#left += bytes
    while (this.#left > 0) {
      const next = this.#waiting.pop()
      if (next === undefined) return
      this.#left -= next.bytes
      next.go()
    }
  }
}
