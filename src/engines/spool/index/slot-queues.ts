import type { ParkedGroup } from '../../../base/task/parked.js'
import type { Ref } from '../../../base/task/ref.js'
import type { NamedSlots, SlotQueueStats } from '../../../base/task/terms.js'
import type { TaskOrder } from '../task-order.js'
import { hash, SHARDS } from './ref-hash.js'
import { SlotQueue } from './slot-queue.js'
import type { Placed } from './window.js'

/** 70 MB, and 150 bytes for each of the best hundred thousand of a name. */
const MAX_PARKED = 1_000_000
/** A worker that was given a ref to try takes so long at most to take the slot. */
const TRY_MS = 50
const NONE: readonly string[] = []
/** A queue may know refs that do not wait any more: so many more than are wanted are looked at. */
const MOST_LOOKS = 1000

interface Tried {
  readonly queue: SlotQueue
  readonly since: number
}

/** Tasks that wait for a slot of their name: a hash each, and the names of the best. They keep their place, and cost nothing. */
export class SlotQueues {
  readonly #order: TaskOrder
  readonly #limit: number
  readonly #named: number | undefined
  readonly #byName = new Map<string, SlotQueue>()
  /** By the hash of the ref. */
  readonly #waiting: ReadonlyArray<Map<number, SlotQueue>> = Array.from({ length: SHARDS }, () => new Map())
  #size = 0
  /** Refs that were given another try, and are not reported yet. */
  readonly #tried = new Map<Ref, Tried>()
  /** Of those in which refs wait; undefined: it has changed. */
  #names: readonly string[] | undefined

  /** @param limit the maximum number of refs @param named the maximum number of names that are kept per queue */
  constructor(order: TaskOrder, limit = MAX_PARKED, named?: number) {
    this.#order = order
    this.#limit = limit
    this.#named = named
  }

  get size(): number {
    return this.#size
  }

  /** More wait than are known, and the known ones of a name run low. */
  get runsLow(): boolean {
    if (this.#size === 0) return false
    for (const queue of this.#byName.values()) if (queue.size > 0 && queue.runsLow) return true
    return false
  }

  /** Those in which tasks wait. */
  *queues(): Generator<SlotQueue> {
    if (this.#size === 0) return
    for (const queue of this.#byName.values()) if (queue.size > 0) yield queue
  }

  /** The names of tasks that wait: another array whenever it changes. */
  get names(): readonly string[] {
    this.#names ??= this.#size === 0 ? NONE : Array.from(this.queues(), ({ slots }) => slots.name)
    return this.#names
  }

  /** The queue that it was taken from for another try, which is not reported yet. */
  triedOf(ref: Ref): SlotQueue | undefined {
    return this.#tried.get(ref)?.queue
  }

  get stats(): SlotQueueStats[] {
    return Array.from(this.queues(), ({ slots, size }) => ({ ...slots, parked: size }))
  }

  /** For each name, the first refs that wait, at most `limit` of them. */
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
    const refs = new Set<Ref>()
    let looks = limit + MOST_LOOKS
    for (const ref of queue.inOrder()) {
      if (refs.size >= limit || looks-- <= 0) break
      const key = hash(ref)
      if (this.#shardOf(key).get(key) === queue) refs.add(ref)
    }
    return [...refs]
  }

  /** @returns false if there is no room */
  add(placed: Placed, slots: NamedSlots): boolean {
    const key = hash(placed.ref)
    const shard = this.#shardOf(key)
    const queue = this.queueOf(slots)
    const before = shard.get(key)
    if (before === queue) return true
    if (before !== undefined) this.#forget(key)
    if (this.#size >= this.#limit) return false
    shard.set(key, queue)
    this.#size++
    if (queue.size === 0) this.#names = undefined
    queue.add(placed)
    return true
  }

  /** The queue of a name, which has so many slots by now. */
  queueOf(slots: NamedSlots): SlotQueue {
    const queue = this.#byName.get(slots.name) ?? new SlotQueue(slots, this.#order, this.#named)
    queue.slots = slots
    this.#byName.set(slots.name, queue)
    return queue
  }

  has(ref: Ref): boolean {
    if (this.#size === 0) return false
    const key = hash(ref)
    return this.#shardOf(key).has(key)
  }

  remove(ref: Ref): void {
    if (this.#size === 0) return
    this.#forget(hash(ref))
  }

  #forget(key: number): boolean {
    const shard = this.#shardOf(key)
    const queue = shard.get(key)
    if (queue === undefined) return false
    shard.delete(key)
    queue.size--
    this.#size--
    if (queue.size === 0) this.#names = undefined
    return true
  }

  /** Removes and returns the first that waits in this queue, which is to be tried; undefined: none is known. @param isRival others run them, too */
  next(queue: SlotQueue, isRival = false): Ref | undefined {
    for (let first = queue.pop(isRival); first !== undefined; first = queue.pop(isRival)) {
      const { ref } = first
      const key = hash(ref)
      if (this.#shardOf(key).get(key) !== queue) continue
      this.#forget(key)
      this.#tried.set(ref, { queue, since: performance.now() })
      queue.isSpare = false
      return ref
    }
    if (queue.isOver && queue.size > 0) this.#clear(queue) // a scan did not meet them: they are gone
    return undefined
  }

  /** Forgets all that wait in this queue. @returns those whose names are known, in order */
  release(queue: SlotQueue): Ref[] {
    const refs: Ref[] = []
    const next = () => this.next(queue)
    for (let ref = next(); ref !== undefined; ref = next()) {
      this.#tried.delete(ref)
      refs.push(ref)
    }
    this.#clear(queue)
    return refs
  }

  #clear(queue: SlotQueue): void {
    if (queue.size === 0) return
    for (const shard of this.#waiting) for (const [key, its] of shard) if (its === queue) this.#forget(key)
  }

  /** A worker reported the ref. @returns the queue that it had been taken from for another try, if it was */
  reported(ref: Ref): SlotQueue | undefined {
    if (this.#tried.size === 0) return undefined
    const queue = this.#tried.get(ref)?.queue
    this.#tried.delete(ref)
    return queue
  }

  /** A slot was given back. */
  freed(slots: NamedSlots): SlotQueue {
    const queue = this.queueOf(slots)
    if (queue.size === 0) queue.isSpare = true
    return queue
  }

  /** How many refs are to be tried, and may not have taken a slot yet. @param placeOf where such a ref is now; undefined: it is gone */
  pendingOf(queue: SlotQueue, placeOf: (ref: Ref) => 'ready' | 'busy' | undefined): number {
    const now = performance.now()
    let pending = 0
    for (const [ref, { queue: its, since }] of this.#tried) {
      if (its !== queue) continue
      const place = placeOf(ref)
      if (place === 'ready' || (place === 'busy' && now < since + TRY_MS)) pending++
      else if (place === undefined) this.#tried.delete(ref)
    }
    return pending
  }

  /** The scan in progress looks for refs whose names are not known. */
  get isHarvesting(): boolean {
    if (this.#size === 0) return false
    for (const queue of this.#byName.values()) if (queue.isHarvesting) return true
    return false
  }

  beginScan(): void {
    for (const queue of this.queues()) queue.beginScan()
  }

  /** The scan in progress met a ref. @param timeOf when it became runnable @returns whether it waits */
  met(ref: Ref, timeOf: (ref: Ref) => number): boolean {
    if (this.#size === 0) return false
    const key = hash(ref)
    const queue = this.#shardOf(key).get(key)
    if (queue === undefined) return false
    if (queue.isHarvesting) queue.met({ ref, time: timeOf(ref) })
    return true
  }

  endScan(isWhole: boolean): void {
    for (const queue of this.#byName.values()) queue.endScan(isWhole)
  }

  #shardOf(key: number): Map<number, SlotQueue> {
    return this.#waiting[key % SHARDS] as Map<number, SlotQueue>
  }
}
