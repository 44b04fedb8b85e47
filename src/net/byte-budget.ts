import { Queue } from '../base/queue.js'

/** Bounds the bytes that are under way to the disk at one time, over all connections; first come, first served. */
export class ByteBudget {
  #left: number
  readonly #waiting = new Queue<{ readonly bytes: number; readonly go: () => void }>()

  constructor(bytes: number) {
    this.#left = bytes
  }

  /** Resolves when so many bytes may go; one that is larger than all goes alone. */
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
