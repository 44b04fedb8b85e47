import { setTimeout as wait } from 'node:timers/promises'
import type { FreeSlots, Looker } from '../../../base/task/report.js'
import type { SlotWish } from '../../../base/task/terms.js'
import { takeStampAsync } from '../../../system/files/stamps.js'
import { STATE_DIRECTORY } from '../names.js'
import { lookAtSlots } from '../slot-files.js'
import type { SlotQueue } from './slot-queue.js'
import type { TaskIndex } from './task-index.js'

/**
 * The time between two looks. A slot that another daemon, or a dead process, gave back is seen after one to two of them. What
 * our workers give back is reported.
 */
const LOOK_MS = 50
/** The looks take at most this share of the time. */
const SHARE = 1 / 50
/**
 * A worker tries this often to take a slot that does not stay free, because the daemon that has it would otherwise keep it as
 * long as it has tasks. A worker also tries where nobody can see which slots are free, and reports why it cannot take one.
 */
const SEND_MS = 1000

/**
 * While refs wait for slots, looks which slots stay free, and makes as many of the refs ready. It has no timer otherwise.
 *
 * A slot that is free for one look only is about to be taken for the next task of the daemon that has given it back. If other
 * daemons tried it, too, all but one would look at every slot in vain.
 */
export class SlotWatch {
  readonly #spool: string
  readonly #index: TaskIndex
  readonly #wakeUp: () => void
  #looker: Looker | undefined
  /**
   * True while the looker has not answered. It is asked nothing more until then, because its process may hang, and is given up
   * after many seconds.
   */
  #isAsked = false
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  /** The slots that the last look found free, by queue. */
  readonly #freeBefore = new WeakMap<SlotQueue, ReadonlySet<number>>()
  /** When a worker was last sent to try for a slot, by queue; before the first time, since when there are looks. */
  readonly #sentAt = new WeakMap<SlotQueue, number>()

  /** @param spool its real path, a byte string */
  constructor(spool: string, index: TaskIndex, wakeUp: () => void) {
    this.#spool = spool
    this.#index = index
    this.#wakeUp = wakeUp
  }

  /** Lets `looker` look from now on. Before that, and without a looker, this process looks. */
  lookBy(looker: Looker): void {
    this.#looker = looker
  }

  /** Begins to look, if refs wait for slots. Call it when refs may have been parked. */
  watch(): void {
    if (this.#timer === undefined && this.#index.parkedFor('slot') > 0) this.#lookIn(LOOK_MS)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #lookIn(ms: number): void {
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#look(), ms).unref()
  }

  async #look(): Promise<void> {
    const queues = [...this.#index.slots.queues()]
    const asked = queues.map(queue => ({
      ...queue.slots,
      wanted: queue.size + this.#index.slots.pendingOf(queue),
    }))
    const free = await this.#freeSlots(asked)
    if (this.#isClosed) return
    const now = performance.now()
    let isAnyReady = false
    for (const [place, queue] of queues.entries()) {
      const count = this.#toTry(queue, free?.numbers[place], now) - this.#index.slots.pendingOf(queue)
      if (count > 0 && this.#index.slots.next(queue, count) > 0) isAnyReady = true
    }
    this.#timer = undefined
    if (this.#index.parkedFor('slot') > 0)
      this.#lookIn(free === undefined ? SEND_MS : Math.max(LOOK_MS, free.tookMs / SHARE))
    if (isAnyReady) this.#wakeUp()
  }

  async #freeSlots(asked: readonly SlotWish[]): Promise<FreeSlots | undefined> {
    if (this.#looker !== undefined) return await this.#ask(this.#looker, asked)
    // while the disk stalls, the look, which would block this process, is not begun
    await takeStampAsync(`${this.#spool}/${STATE_DIRECTORY}/slots`)
    return lookAtSlots(this.#spool, asked)
  }

  /** @returns undefined if there is no answer for now. A later one is of no use, because names and slots have changed by then */
  async #ask(looker: Looker, asked: readonly SlotWish[]): Promise<FreeSlots | undefined> {
    if (this.#isAsked) return undefined
    this.#isAsked = true
    const answered = looker.freeSlots(asked).finally(() => {
      this.#isAsked = false
    })
    return await Promise.race([answered, wait(SEND_MS, undefined, { ref: false })])
  }

  /** Returns how many slots are to be tried. @param free the slots that are free; undefined or null if that is not known */
  #toTry(queue: SlotQueue, free: readonly number[] | null | undefined, now: number): number {
    if (free === undefined || free === null) return this.#isDue(queue, now) ? 1 : 0
    const before = this.#freeBefore.get(queue)
    this.#freeBefore.set(queue, new Set(free))
    if (before === undefined) this.#sentAt.set(queue, now)
    const lasting = free.filter(number => before?.has(number)).length
    return lasting === 0 && free.length > 0 && this.#isDue(queue, now) ? 1 : lasting
  }

  #isDue(queue: SlotQueue, now: number): boolean {
    if (now - (this.#sentAt.get(queue) ?? 0) < SEND_MS) return false
    this.#sentAt.set(queue, now)
    return true
  }
}
