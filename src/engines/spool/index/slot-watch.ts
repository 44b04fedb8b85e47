import { takeStampAsync } from '../../../system/files/stamps.js'
import { STATE_DIRECTORY } from '../names.js'
import { freeSlots } from '../slot-files.js'
import type { SlotQueue } from './slot-queue.js'
import type { TaskIndex } from './task-index.js'

/** How soon a slot is seen that another daemon, or a dead process, gave back. What our workers give back is reported. */
const LOOK_MS = 50
/** The looks take at most this share of the time. */
const SHARE = 1 / 50
/** Where it cannot be seen, a worker tries this often, and says why it cannot. */
const BLIND_MS = 1000

/** While tasks wait for slots: looks which are free, and makes as many of the tasks ready. It has no timer otherwise. */
export class SlotWatch {
  readonly #spool: string
  readonly #index: TaskIndex
  readonly #wakeUp: () => void
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  /** When a worker was last sent to see for itself. */
  readonly #sentAt = new WeakMap<SlotQueue, number>()

  /** @param spool its real path, a byte string */
  constructor(spool: string, index: TaskIndex, wakeUp: () => void) {
    this.#spool = spool
    this.#index = index
    this.#wakeUp = wakeUp
  }

  /** Call it when tasks may have been parked. */
  watch(): void {
    if (this.#timer === undefined && this.#index.parkedFor('slot') > 0) this.#lookIn(LOOK_MS)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #lookIn(ms: number): void {
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#lookIfItAnswers(), ms).unref()
  }

  /** The look itself waits for each call: while the disk stalls, it is not begun. */
  async #lookIfItAnswers(): Promise<void> {
    await takeStampAsync(`${this.#spool}/${STATE_DIRECTORY}/slots`)
    if (!this.#isClosed) this.#look()
  }

  #look(): void {
    const startedAt = performance.now()
    let isAnyReady = false
    for (const queue of this.#index.tries.queues()) {
      const pending = this.#index.tries.pendingOf(queue)
      const free = this.#freeOf(queue, queue.size + pending, startedAt) - pending
      if (free > 0 && this.#index.tries.next(queue, free) > 0) isAnyReady = true
    }
    this.#timer = undefined
    if (this.#index.parkedFor('slot') > 0)
      this.#lookIn(Math.max(LOOK_MS, (performance.now() - startedAt) / SHARE))
    if (isAnyReady) this.#wakeUp()
  }

  #freeOf(queue: SlotQueue, most: number, now: number): number {
    try {
      return freeSlots(this.#spool, queue.slots, most)
    } catch {
      if (now - (this.#sentAt.get(queue) ?? 0) < BLIND_MS) return 0
      this.#sentAt.set(queue, now)
      return 1
    }
  }
}
