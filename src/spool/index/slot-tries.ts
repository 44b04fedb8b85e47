import type { ParkedGroup } from '../../task/parked.js'
import type { Ref } from '../../task/ref.js'
import { isHandled, type Report } from '../../task/report.js'
import type { SlotQueueStats } from '../../task/slots.js'
import type { SlotQueue } from './slot-queue.js'
import type { SlotQueues } from './slot-queues.js'

/** What the index does with refs. */
interface Places {
  makeReady(ref: Ref): void
  /** More are ready, and only a scan can name them. */
  missSome(): void
  isBusy(ref: Ref): boolean
  isReady(ref: Ref): boolean
  /** Its file is not there any more. */
  isGone(ref: Ref): boolean
}

/**
 * Makes the first refs of a queue ready as slots of their name become free. Only a worker knows whether one is: it reports
 * those that find none, and they are back in their place. What other daemons have run meanwhile is not tried: a slot would be
 * free for as long as a worker needs to find out.
 */
export class SlotTries {
  readonly #queues: SlotQueues
  readonly #places: Places

  constructor(queues: SlotQueues, places: Places) {
    this.#queues = queues
    this.#places = places
  }

  /** The names of tasks that wait: another array whenever it changes. */
  get queued(): readonly string[] {
    return this.#queues.names
  }

  /** How many wait, by name. */
  get stats(): SlotQueueStats[] {
    return this.#queues.stats
  }

  /** What waits, by name. */
  groups(limit: number): Iterable<ParkedGroup> {
    return this.#queues.groups(limit)
  }

  /** It is taken to be tried. */
  isTry(ref: Ref): boolean {
    return this.#queues.isTried(ref)
  }

  /** The queues in which refs wait. */
  queues(): Iterable<SlotQueue> {
    return this.#queues.queues()
  }

  /** The first `count` refs of a queue are ready. @returns how many there were */
  next(queue: SlotQueue, count: number): number {
    for (let i = 0; i < count; ) {
      const ref = this.#queues.next(queue)
      if (ref === undefined) return i
      if (this.#places.isGone(ref)) this.#queues.reported(ref)
      else {
        this.#places.makeReady(ref)
        i++
      }
    }
    return count
  }

  /** It waits no more if its file has been removed. */
  isOver(ref: Ref): boolean {
    const isOver = this.#queues.has(ref) && this.#places.isGone(ref)
    if (isOver) this.#queues.remove(ref)
    return isOver
  }

  /** How many refs of a queue are to be tried, and no worker has them yet. */
  pendingOf(queue: SlotQueue): number {
    const { isBusy, isReady } = this.#places
    return this.#queues.pendingOf(queue, ref => {
      if (isBusy(ref)) return 'busy'
      return isReady(ref) ? 'ready' : undefined
    })
  }

  /** A worker has finished with a ref, which has its place by now. */
  reported({ ref, kind, slots }: Report): void {
    const tried = this.#queues.reported(ref)
    const isParked = kind === 'parked' && slots !== undefined
    if (isParked) return this.#parked(this.#queues.queueOf(slots))
    if (slots !== undefined) this.next(this.#queues.freed(slots), 1)
    else if (tried !== undefined && hasRun(kind)) this.#release(tried)
    else if (tried !== undefined) this.next(tried, 1)
  }

  /** A worker ran the ref, and it took no slot. */
  ranWithout(ref: Ref): void {
    const tried = this.#queues.reported(ref)
    if (tried !== undefined) this.#release(tried)
  }

  /** One was given back after it was found taken, and before that was reported. */
  #parked(queue: SlotQueue): void {
    if (queue.isSpare) this.next(queue, 1)
  }

  /** The name has no slots any more. */
  #release(queue: SlotQueue): void {
    const count = queue.size
    const named = this.#queues.release(queue)
    for (const ref of named) this.#places.makeReady(ref)
    if (named.length < count) this.#places.missSome()
  }
}

/** It began, so it had a slot if its name has any. */
function hasRun(kind: Report['kind']): boolean {
  return isHandled(kind) || kind === 'ignore'
}
