import { takeStampAsync } from '../../../system/files/stamps.js'
import { STATE_DIRECTORY } from '../names.js'
import { freeSlots } from '../slot-files.js'
import type { SlotQueue } from './slot-queue.js'
import type { TaskIndex } from './task-index.js'

/** A slot that another daemon, or a dead process, gave back is seen after one to two of these. What our workers give back is reported. */
const LOOK_MS = 50
/** The looks take at most this share of the time. */
const SHARE = 1 / 50
/**
 * A worker tries this often to get one that does not stay free, or the daemon that has it would keep it as long as it has tasks. It also
 * tries where nothing can be seen, and says why it cannot.
 */
const SEND_MS = 1000

/**
 * While tasks wait for slots: looks which stay free, and makes as many of the tasks ready. It has no timer otherwise.
 *
 * A slot that is free for one look only is on its way to the next task of a daemon that has just given it back. If others tried it,
 * too, all but one would look at every slot in vain.
 */
export class SlotWatch {
  readonly #spool: string
  readonly #index: TaskIndex
  readonly #wakeUp: () => void
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  /** Those that the last look found free. */
  readonly #freeBefore = new WeakMap<SlotQueue, ReadonlySet<number>>()
  /** When a worker was last sent to see for itself, or since when there are looks. */
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
    for (const queue of this.#index.slots.queues()) {
      const pending = this.#index.slots.pendingOf(queue)
      const free = this.#freeOf(queue, queue.size + pending, startedAt) - pending
      if (free > 0 && this.#index.slots.next(queue, free) > 0) isAnyReady = true
    }
    this.#timer = undefined
    if (this.#index.parkedFor('slot') > 0)
      this.#lookIn(Math.max(LOOK_MS, (performance.now() - startedAt) / SHARE))
    if (isAnyReady) this.#wakeUp()
  }

  /** How many slots are to be tried. */
  #freeOf(queue: SlotQueue, most: number, now: number): number {
    try {
      const free = freeSlots(this.#spool, queue.slots, most)
      const before = this.#freeBefore.get(queue)
      this.#freeBefore.set(queue, new Set(free))
      if (before === undefined) this.#sentAt.set(queue, now)
      const lasting = free.filter(number => before?.has(number)).length
      return lasting === 0 && free.length > 0 && this.#isDue(queue, now) ? 1 : lasting
    } catch {
      return this.#isDue(queue, now) ? 1 : 0
    }
  }

  #isDue(queue: SlotQueue, now: number): boolean {
    if (now - (this.#sentAt.get(queue) ?? 0) < SEND_MS) return false
    this.#sentAt.set(queue, now)
    return true
  }
}
