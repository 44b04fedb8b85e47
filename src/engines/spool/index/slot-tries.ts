import type { ParkedGroup } from '../../../base/task/parked.js'
import type { Ref } from '../../../base/task/ref.js'
import { isHandled, type Report, waitsForSlot } from '../../../base/task/report.js'
import type { NamedSlots, SlotQueueStats } from '../../../base/task/terms.js'
import type { BusyRefs } from './busy-refs.js'
import type { ReadyRefs } from './ready-refs.js'
import type { SlotQueue } from './slot-queue.js'
import type { SlotQueues } from './slot-queues.js'

/** What the index does with refs. */
interface Places {
  readonly ready: ReadyRefs
  readonly busy: BusyRefs
  makeReady(ref: Ref): void
  /** Takes the first of those that are ready. @returns false if it is elsewhere by now */
  takeFirst(ref: Ref): boolean
  haveRivals(): boolean
}

/**
 * Makes the first refs of a queue ready as slots of their name become free. Only a worker knows whether one is: it reports
 * those that find none, and they are back in their place.
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
    return this.#queues.triedOf(ref) !== undefined
  }

  /** The queues in which refs wait. */
  queues(): Iterable<SlotQueue> {
    return this.#queues.queues()
  }

  /** The first `count` refs of a queue are ready. @returns how many there were */
  next(queue: SlotQueue, count: number): number {
    for (let i = 0; i < count; i++) {
      const ref = this.#queues.next(queue, this.#places.haveRivals())
      if (ref === undefined) return i
      this.#places.makeReady(ref)
    }
    return count
  }

  /** Takes at most `limit` of those that wait for one of these slots, as long as they come before all that is ready. */
  takeFirst(slots: NamedSlots, limit: number): Ref[] {
    const queue = this.#queues.queueOf(slots)
    const taken: Ref[] = []
    while (taken.length < limit) {
      const ref = this.#firstOf(queue) ?? this.#makeFirst(queue)
      if (ref === undefined) break
      if (this.#places.takeFirst(ref)) taken.push(ref)
    }
    return taken
  }

  /** What is ready first, if it is of this queue. */
  #firstOf(queue: SlotQueue): Ref | undefined {
    const first = this.#places.ready.peek()?.ref
    return first !== undefined && this.#queues.triedOf(first) === queue ? first : undefined
  }

  #makeFirst(queue: SlotQueue): Ref | undefined {
    const next = queue.peek()
    const isFirst = next !== undefined && this.#places.ready.isFirst(next)
    return isFirst && this.next(queue, 1) > 0 ? this.#firstOf(queue) : undefined
  }

  /** How many refs of a queue are to be tried, and may not have taken a slot yet. */
  pendingOf(queue: SlotQueue): number {
    const { busy, ready } = this.#places
    return this.#queues.pendingOf(queue, ref => {
      if (busy.has(ref)) return 'busy'
      return ready.isFresh(ref) ? 'ready' : undefined
    })
  }

  /** A worker has finished with a ref, which has its place by now. */
  reported(report: Report): void {
    const { ref, kind, slots } = report
    const tried = this.#queues.reported(ref)
    if (waitsForSlot(report)) return this.#parked(this.#queues.queueOf(report.slots))
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
    if (named.length < count) this.#places.ready.missSome()
  }
}

/** It began, so it had a slot if its name has any. */
function hasRun(kind: Report['kind']): boolean {
  return isHandled(kind) || kind === 'ignore'
}
