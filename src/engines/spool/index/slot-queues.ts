import type { ParkedGroup } from '../../../base/task/parked.js'
import type { Ref } from '../../../base/task/ref.js'
import { isHandled, type Report, waitsForSlot } from '../../../base/task/report.js'
import type { NamedSlots, SlotQueueStats } from '../../../base/task/terms.js'
import type { TaskOrder } from '../task-order.js'
import type { Placed } from '../window.js'
import type { BusyRefs } from './busy-refs.js'
import type { ReadyRefs } from './ready-refs.js'
import { HashMap, hash } from './ref-hash.js'
import { SlotQueue } from './slot-queue.js'

/** The default limit of waiting refs: 70 MB, and 150 bytes for each of the best hundred thousand refs of a name. */
const MAX_PARKED = 1_000_000
/** A worker that was given a ref to try takes the slot within this time. */
const TRY_MS = 50
const NONE: readonly string[] = []
/** How many more refs are looked at than are wanted, because a queue may know refs that do not wait any more. */
const MOST_LOOKS = 1000

interface Tried {
  readonly queue: SlotQueue
  readonly since: number
}

/** The parts of the index that the queues use. */
interface Places {
  readonly ready: ReadyRefs
  readonly busy: BusyRefs
  makeReady(ref: Ref): void
  /** Takes the first ready ref for a worker. @returns false if that is another ref, or if the ref is elsewhere by now */
  takeFirst(ref: Ref): boolean
  haveRivals(): boolean
}

/**
 * The refs that wait for a slot of their task's name: a hash each, and the names of the best. They keep their place, and cost
 * nothing.
 *
 * The first refs of a name are made ready as slots of that name become free. Only a worker knows whether a slot is free: it
 * reports the refs that find none, and they return to their place.
 */
export class SlotQueues {
  readonly #order: TaskOrder
  readonly #places: Places
  readonly #limit: number
  readonly #byName = new Map<string, SlotQueue>()
  /** The queue in which each ref waits, by the hash of the ref. */
  readonly #waiting = new HashMap<SlotQueue>()
  /** Refs that were given another try, and are not reported yet. */
  readonly #tried = new Map<Ref, Tried>()
  /** The names of the queues in which refs wait; undefined once they have changed. */
  #names: readonly string[] | undefined

  /** @param limit the maximum number of refs */
  constructor(order: TaskOrder, places: Places, limit = MAX_PARKED) {
    this.#order = order
    this.#places = places
    this.#limit = limit
  }

  get size(): number {
    return this.#waiting.size
  }

  /** True if more refs of a name wait than are known, and the known ones run low. */
  get runsLow(): boolean {
    if (this.size === 0) return false
    for (const queue of this.#byName.values()) if (queue.size > 0 && queue.runsLow) return true
    return false
  }

  /** The queues in which refs wait. */
  *queues(): Generator<SlotQueue> {
    if (this.size === 0) return
    for (const queue of this.#byName.values()) if (queue.size > 0) yield queue
  }

  /** The names for whose slots refs wait: another array whenever they change. */
  get queued(): readonly string[] {
    this.#names ??= this.size === 0 ? NONE : Array.from(this.queues(), ({ slots }) => slots.name)
    return this.#names
  }

  /** True if the ref was given another try, and is not reported yet. */
  isTry(ref: Ref): boolean {
    return this.#tried.has(ref)
  }

  get stats(): SlotQueueStats[] {
    return Array.from(this.queues(), ({ slots, size }) => ({ ...slots, parked: size }))
  }

  /** Yields, for each name, a group with the first refs that wait, at most `limit` of them. */
  *groups(limit: number): Generator<ParkedGroup> {
    for (const queue of this.queues()) {
      const { slots, size: count } = queue
      yield {
        reason: 'slot',
        name: slots.name,
        slots: slots.count,
        count,
        tasks: this.#firstOf(queue, limit),
      }
    }
  }

  #firstOf(queue: SlotQueue, limit: number): Ref[] {
    const refs = queue.first(limit + MOST_LOOKS).filter(ref => this.#waiting.get(hash(ref)) === queue)
    return [...new Set(refs)].slice(0, limit)
  }

  /** @returns false if there is no room */
  add(placed: Placed, slots: NamedSlots): boolean {
    const key = hash(placed.ref)
    const queue = this.#queueOf(slots)
    const before = this.#waiting.get(key)
    if (before === queue) return true
    if (before !== undefined) this.#forget(key)
    if (this.size >= this.#limit) return false
    this.#waiting.set(key, queue)
    if (queue.size === 0) this.#names = undefined
    queue.add(placed)
    return true
  }

  /** Returns the queue of a name, and updates the number of its slots. */
  #queueOf(slots: NamedSlots): SlotQueue {
    const queue = this.#byName.get(slots.name) ?? new SlotQueue(slots, this.#order)
    queue.slots = slots
    this.#byName.set(slots.name, queue)
    return queue
  }

  has(ref: Ref): boolean {
    if (this.size === 0) return false
    return this.#waiting.has(hash(ref))
  }

  remove(ref: Ref): void {
    if (this.size === 0) return
    this.#forget(hash(ref))
  }

  #forget(key: number): void {
    const queue = this.#waiting.get(key)
    if (queue === undefined) return
    this.#waiting.delete(key)
    queue.size--
    if (queue.size === 0) this.#names = undefined
  }

  /** Makes the first `count` refs of a queue ready. @returns how many there were */
  next(queue: SlotQueue, count: number): number {
    for (let i = 0; i < count; i++) {
      const ref = this.#pop(queue, this.#places.haveRivals())
      if (ref === undefined) return i
      this.#places.makeReady(ref)
    }
    return count
  }

  /**
   * Removes and returns the first ref that waits in this queue, to be tried; undefined if none is known.
   *
   * @param isRival true if other daemons run them, too
   */
  #pop(queue: SlotQueue, isRival = false): Ref | undefined {
    for (let first = queue.pop(isRival); first !== undefined; first = queue.pop(isRival)) {
      const { ref } = first
      const key = hash(ref)
      if (this.#waiting.get(key) !== queue) continue
      this.#forget(key)
      this.#tried.set(ref, { queue, since: performance.now() })
      queue.isSpare = false
      return ref
    }
    // the refs that are left are gone: a scan did not meet them
    if (queue.isOver && queue.size > 0) this.#clear(queue)
    return undefined
  }

  /** Takes at most `limit` refs that wait for one of these slots, as long as they come before all that are ready. */
  takeFirst(slots: NamedSlots, limit: number): Ref[] {
    const queue = this.#queueOf(slots)
    const taken: Ref[] = []
    while (taken.length < limit) {
      const ref = this.#readyFirstOf(queue) ?? this.#makeFirst(queue)
      if (ref === undefined) break
      if (this.#places.takeFirst(ref)) taken.push(ref)
    }
    return taken
  }

  /** Returns the first ready ref, if it is to be tried for this queue. */
  #readyFirstOf(queue: SlotQueue): Ref | undefined {
    const first = this.#places.ready.peek()?.ref
    return first !== undefined && this.#tried.get(first)?.queue === queue ? first : undefined
  }

  #makeFirst(queue: SlotQueue): Ref | undefined {
    const next = queue.peek()
    const isFirst = next !== undefined && this.#places.ready.isFirst(next)
    return isFirst && this.next(queue, 1) > 0 ? this.#readyFirstOf(queue) : undefined
  }

  /** Returns how many refs of a queue are being tried, and may not have taken a slot yet. */
  pendingOf(queue: SlotQueue): number {
    const { busy, ready } = this.#places
    const now = performance.now()
    let pending = 0
    for (const [ref, { queue: its, since }] of this.#tried) {
      if (its !== queue) continue
      if (busy.has(ref)) pending += Number(now < since + TRY_MS)
      else if (ready.isFresh(ref)) pending++
      else this.#tried.delete(ref) // the ref is gone
    }
    return pending
  }

  /** Takes in the report of a worker that has finished with a ref, which is in its new place by now. */
  reported(report: Report): void {
    const { ref, kind, slots } = report
    const tried = this.#endTry(ref)
    if (waitsForSlot(report)) {
      const queue = this.#queueOf(report.slots)
      // a slot was given back after the worker found all of them taken, and before it reported that
      if (queue.isSpare) this.next(queue, 1)
    } else if (slots !== undefined) {
      const queue = this.#queueOf(slots)
      if (queue.size === 0) queue.isSpare = true
      this.next(queue, 1)
    } else if (tried !== undefined && hasRun(kind)) this.#release(tried)
    else if (tried !== undefined) this.next(tried, 1)
  }

  /** Takes note that a worker ran the ref, which took no slot. */
  ranWithout(ref: Ref): void {
    const tried = this.#endTry(ref)
    if (tried !== undefined) this.#release(tried)
  }

  /** Ends the try of a ref. @returns the queue from which it was taken; undefined if it was not tried */
  #endTry(ref: Ref): SlotQueue | undefined {
    if (this.#tried.size === 0) return undefined
    const queue = this.#tried.get(ref)?.queue
    this.#tried.delete(ref)
    return queue
  }

  /** Makes all refs of a queue ready, because its name has no slots any more. */
  #release(queue: SlotQueue): void {
    let unnamed = queue.size
    for (let ref = this.#pop(queue); ref !== undefined; ref = this.#pop(queue)) {
      unnamed--
      this.#tried.delete(ref)
      this.#places.makeReady(ref)
    }
    this.#clear(queue)
    if (unnamed > 0) this.#places.ready.missSome()
  }

  #clear(queue: SlotQueue): void {
    if (queue.size === 0) return
    for (const key of this.#waiting.keys((_, its) => its === queue)) this.#forget(key)
  }

  /** True if the scan in progress looks for refs whose names are not known. */
  get isHarvesting(): boolean {
    if (this.size === 0) return false
    for (const queue of this.#byName.values()) if (queue.isHarvesting) return true
    return false
  }

  beginScan(): void {
    for (const queue of this.queues()) queue.beginScan()
  }

  /**
   * Takes in a ref that the scan in progress met.
   *
   * @param timeOf returns when a ref became runnable
   * @returns true if the ref waits for a slot
   */
  met(ref: Ref, timeOf: (ref: Ref) => number): boolean {
    if (this.size === 0) return false
    const key = hash(ref)
    const queue = this.#waiting.get(key)
    if (queue === undefined) return false
    if (queue.isHarvesting) queue.met({ ref, time: timeOf(ref) })
    return true
  }

  endScan(isWhole: boolean): void {
    for (const queue of this.#byName.values()) queue.endScan(isWhole)
  }
}

/** True if the task began, so that it had a slot if its name has any. */
function hasRun(kind: Report['kind']): boolean {
  return isHandled(kind) || kind === 'ignore'
}
