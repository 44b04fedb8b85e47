import { orderedPart } from '../../../base/heap.js'
import type { Ref } from '../../../base/task/ref.js'
import { isHeldUntil } from '../spool-file.js'
import { BoundedHeap } from './bounded-heap.js'
import { HashMap, hash } from './ref-hash.js'

/** The number of names kept for an exact wake-up; of refs that come due later, only a hash is kept. */
const NAMED = 50_000

const ENDLESS = Number.POSITIVE_INFINITY

interface Waiting {
  readonly ref: Ref
  readonly atMs: number
}

/**
 * The refs that wait for their time. A million of them take 60 MB: a hash and a second each, and the names of the soonest
 * 50,000. When one of the others comes due (`horizonMs`), a listing of everything finds their names.
 */
export class WaitingList {
  /**
   * The second until which each ref waits, by its hash; negative if a change of the file does not end the wait, because the
   * change was our own.
   */
  readonly #seconds = new HashMap<number>()
  #named = soonestFirst()
  /** The names that the listing in progress finds; undefined if it looks for none. */
  #found: BoundedHeap<Waiting> | undefined
  /** True if a listing that was to find the names did not come to its end. */
  #areNamesLost = false
  /** The number of refs that wait for a change of their file alone. */
  #endless = 0
  #held = 0

  get size(): number {
    return this.#seconds.size
  }

  /** The number of refs that wait for a change of their file alone. */
  get endless(): number {
    return this.#endless
  }

  /** The number of refs that people hold. */
  get held(): number {
    return this.#held
  }

  /** When the next ref with a known name comes due; epoch ms. */
  get nextAtMs(): number {
    return this.#soonest()?.atMs ?? Number.POSITIVE_INFINITY
  }

  /** From this time on, refs with unknown names are due; epoch ms. */
  get horizonMs(): number {
    return this.#named.horizon?.atMs ?? Number.POSITIVE_INFINITY
  }

  /** When the next ref comes due, its name known or not; epoch ms. */
  get wakesAtMs(): number {
    return Math.min(this.nextAtMs, this.horizonMs)
  }

  /** @param atMs Infinity if the ref waits for a change of its file alone */
  add(ref: Ref, atMs: number, endsOnChange: boolean): void {
    const key = hash(ref)
    const second = Math.ceil(atMs / 1000)
    this.#count(this.#seconds.get(key), -1)
    this.#seconds.set(key, endsOnChange ? second : -second)
    this.#count(second, 1)
    if (second !== ENDLESS) for (const names of [this.#named, this.#found]) names?.add({ ref, atMs })
  }

  /** Prepares for a listing of everything, which finds the names if some are not known. */
  beginListing(): void {
    this.#seconds.beginListing()
    const areAllNamed = !this.#areNamesLost && this.horizonMs === Number.POSITIVE_INFINITY
    this.#found = areAllNamed ? undefined : soonestFirst()
  }

  /**
   * Takes in a ref that a listing met. A ref that has come due waits no longer.
   *
   * @returns until when the ref waits, or waited; epoch ms. Undefined if it does not wait
   */
  met(ref: Ref, nowMs: number): number | undefined {
    if (this.size === 0) return undefined
    const key = hash(ref)
    const second = this.#seconds.get(key)
    if (second === undefined) return undefined
    const atMs = Math.abs(second) * 1000
    if (atMs <= nowMs) this.#forget(key)
    else {
      this.#seconds.met(key)
      if (atMs !== ENDLESS) this.#found?.add({ ref, atMs })
    }
    return atMs
  }

  /**
   * Forgets the refs that the listing did not meet: their files are gone.
   *
   * @param isWhole true if the listing met everything
   */
  endListing(isWhole: boolean): void {
    if (this.#found !== undefined) {
      this.#areNamesLost = !isWhole
      if (isWhole) this.#named = this.#found
      else {
        this.#named.horizon = undefined // none until the next listing
        for (const waiting of this.#found.values()) this.#named.add(waiting)
      }
      this.#found = undefined
    }
    if (isWhole) for (const key of this.#seconds.unmet()) this.#forget(key)
  }

  isWaiting(ref: Ref, nowMs: number): boolean {
    if (this.size === 0) return false
    const second = this.#secondOf(ref)
    return second !== undefined && second * 1000 > nowMs
  }

  /** Takes in a change of a file. Ends the wait, if there is one, unless the ref waits for a time that we set ourselves. */
  endOnChange(ref: Ref): 'no wait' | 'ended' | 'goes on' {
    if (this.size === 0) return 'no wait'
    const key = hash(ref)
    const second = this.#seconds.get(key)
    if (second === undefined) return 'no wait'
    if (second < 0) return 'goes on'
    this.#forget(key)
    return 'ended'
  }

  /** Removes and returns one ref that is due; undefined if there is none. */
  popDue(nowMs: number): Waiting | undefined {
    const next = this.#soonest()
    if (next === undefined || next.atMs > nowMs) return undefined
    this.#named.pop()
    this.#forget(hash(next.ref))
    return next
  }

  /** Returns part of the refs that come due next, in that order, as far as their names are known. They go on waiting. */
  soonest(from: number, count: number, nowMs: number): Ref[] {
    const waiting = [...this.#named.values()].filter(each => each.atMs > nowMs && this.#isSo(each))
    const part = orderedPart(waiting, from, count, (a, b) => a.atMs < b.atMs)
    return [...new Set(part.map(({ ref }) => ref))]
  }

  /** Forgets everything: a scan finds what still waits. */
  clear(): void {
    this.#seconds.clear()
    this.#endless = 0
    this.#held = 0
    this.#named = soonestFirst()
    this.#areNamesLost = false
  }

  #soonest(): Waiting | undefined {
    for (;;) {
      const next = this.#named.peek()
      if (next === undefined || this.#isSo(next)) return next
      this.#named.pop()
    }
  }

  /** True if the entry still holds. A time that was changed, or a wait that ended, leaves an entry behind. */
  #isSo({ ref, atMs }: Waiting): boolean {
    return this.#secondOf(ref) === Math.ceil(atMs / 1000)
  }

  #secondOf(ref: Ref): number | undefined {
    const second = this.#seconds.get(hash(ref))
    return second === undefined ? undefined : Math.abs(second)
  }

  #forget(key: number): void {
    this.#count(this.#seconds.get(key), -1)
    this.#seconds.delete(key)
  }

  #count(second: number | undefined, by: number): void {
    if (second === undefined) return
    if (second === ENDLESS) this.#endless += by
    else if (isHeldUntil(Math.abs(second) * 1000)) this.#held += by
  }
}

/** Makes a heap of refs with their names. */
function soonestFirst(): BoundedHeap<Waiting> {
  return new BoundedHeap<Waiting>((a, b) => a.atMs < b.atMs, NAMED)
}
