import { orderedPart } from '../../../base/heap.js'
import type { Ref } from '../../../base/task/ref.js'
import { BoundedHeap } from './bounded-heap.js'
import { HashMap, hash } from './ref-hash.js'

/** The number of names kept for an exact wake-up; of later ones only a hash is kept. */
const NAMED = 50_000

const ENDLESS = Number.POSITIVE_INFINITY

interface Waiting {
  readonly ref: Ref
  readonly atMs: number
}

/** Whether a listing of everything has met all that waits. */
export type ListingEnd = 'all met' | 'some missing' | 'cut short'

/**
 * Refs that are not worth a look before some time. A million of them take 60 MB: a hash and a second each, and the names of
 * the soonest 50,000. When one of the others comes due, a listing of everything finds their names: `horizonMs`.
 */
export class WaitingList {
  /** hash → second; negative if a change of the file does not end the wait, because the change was our own. */
  readonly #seconds = new HashMap<number>()
  #named = soonestFirst()
  /** The names that a listing finds; undefined: it looks for none. */
  #found: BoundedHeap<Waiting> | undefined
  /** A listing that was to find the names did not come to its end. */
  #areNamesLost = false
  /** How many wait for a change of their file alone. */
  #endless = 0
  /** How many waited when the listing of everything began, and it has not met. */
  #unmet = 0

  get size(): number {
    return this.#seconds.size
  }

  /** How many wait for a change of their file alone. */
  get endless(): number {
    return this.#endless
  }

  /** When the next ref with a known name comes due; epoch ms. */
  get nextAtMs(): number {
    return this.#soonest()?.atMs ?? Number.POSITIVE_INFINITY
  }

  /** From this time on, refs with unknown names are due; epoch ms. */
  get horizonMs(): number {
    return this.#named.horizon?.atMs ?? Number.POSITIVE_INFINITY
  }

  /** When something comes due by itself; epoch ms. */
  get wakesAtMs(): number {
    return Math.min(this.nextAtMs, this.horizonMs)
  }

  /** @param atMs Infinity: it waits for a change alone */
  add(ref: Ref, atMs: number, endsOnChange: boolean): void {
    const key = hash(ref)
    const second = Math.ceil(atMs / 1000)
    if (this.#seconds.get(key) === ENDLESS) this.#endless--
    this.#seconds.set(key, endsOnChange ? second : -second)
    if (second === ENDLESS) this.#endless++
    else for (const names of [this.#named, this.#found]) names?.add({ ref, atMs })
  }

  /** A listing of everything begins: it finds the names, where they are needed. */
  beginListing(): void {
    this.#unmet = this.size
    const areAllNamed = !this.#areNamesLost && this.horizonMs === Number.POSITIVE_INFINITY
    this.#found = areAllNamed ? undefined : soonestFirst()
  }

  /** A listing has met it. @returns until when it waits, or when it came due, from when on it waits no longer; undefined: it does not wait */
  met(ref: Ref, nowMs: number): number | undefined {
    if (this.size === 0) return undefined
    const second = this.#secondOf(ref)
    if (second === undefined) return undefined
    const atMs = second * 1000
    if (atMs <= nowMs) this.#forget(hash(ref))
    else {
      this.#unmet--
      if (atMs !== ENDLESS) this.#found?.add({ ref, atMs })
    }
    return atMs
  }

  /** @param isWhole it has met everything */
  endListing(isWhole: boolean): ListingEnd {
    if (this.#found !== undefined) {
      this.#areNamesLost = !isWhole
      if (isWhole) this.#named = this.#found
      else {
        this.#named.horizon = undefined // until the next listing
        for (const waiting of this.#found.values()) this.#named.add(waiting)
      }
      this.#found = undefined
    }
    if (!isWhole) return 'cut short'
    return this.#unmet > 0 ? 'some missing' : 'all met'
  }

  isWaiting(ref: Ref, nowMs: number): boolean {
    if (this.size === 0) return false
    const second = this.#secondOf(ref)
    return second !== undefined && second * 1000 > nowMs
  }

  /** The file changed. Ends the wait, if there is one, unless the file waits for a time that we set ourselves. */
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

  /** Part of those that come due next, in that order, as far as their names are known. They go on waiting. */
  soonest(from: number, count: number, nowMs: number): Ref[] {
    const waiting = [...this.#named.values()].filter(each => each.atMs > nowMs && this.#isSo(each))
    const part = orderedPart(waiting, from, count, (a, b) => a.atMs < b.atMs)
    return [...new Set(part.map(({ ref }) => ref))]
  }

  /** Forgets everything: a scan finds what still waits. */
  clear(): void {
    this.#seconds.clear()
    this.#endless = 0
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

  /** A time that was changed, or a wait that ended, leaves an entry behind. */
  #isSo({ ref, atMs }: Waiting): boolean {
    return this.#secondOf(ref) === Math.ceil(atMs / 1000)
  }

  #secondOf(ref: Ref): number | undefined {
    const second = this.#seconds.get(hash(ref))
    return second === undefined ? undefined : Math.abs(second)
  }

  #forget(key: number): void {
    if (this.#seconds.get(key) === ENDLESS) this.#endless--
    if (this.#seconds.delete(key)) this.#unmet-- // whether the listing would have met it or not
  }
}

/** With their names. */
function soonestFirst(): BoundedHeap<Waiting> {
  return new BoundedHeap<Waiting>((a, b) => a.atMs < b.atMs, NAMED)
}
