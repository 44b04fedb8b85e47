import { setTimeout as wait } from 'node:timers/promises'
import type { FreeSlots, Looker } from '../../../base/task/report.js'
import type { SlotWish } from '../../../base/task/terms.js'
import { takeStampAsync } from '../../../system/files/stamps.js'
import { STATE_DIRECTORY } from '../names.js'
import { lookAtSlots } from '../slot-files.js'
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
  #looker: Looker | undefined
  /** It has not answered yet, so it is asked nothing more: its process may hang, and is given up after many seconds. */
  #isAsked = false
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

  /** From now on this looks; before, and without it, this process does. */
  lookBy(looker: Looker): void {
    this.#looker = looker
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
    await takeStampAsync(`${this.#spool}/${STATE_DIRECTORY}/slots`) // while the disk stalls, the look is not begun
    return lookAtSlots(this.#spool, asked)
  }

  /** @returns undefined: there is no answer for now. One that comes later is of no use: names and slots have changed */
  async #ask(looker: Looker, asked: readonly SlotWish[]): Promise<FreeSlots | undefined> {
    if (this.#isAsked) return undefined
    this.#isAsked = true
    const answered = looker.freeSlots(asked).finally(() => {
      this.#isAsked = false
    })
    return await Promise.race([answered, wait(SEND_MS, undefined, { ref: false })])
  }

  /** How many slots are to be tried. @param free undefined or null: it is not known which are free */
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
