import { Heap } from '../base/heap.js'
import type { Ref } from '../task/ref.js'

/** Names kept for an exact wake-up; of later ones only a number is kept. */
const NAMED = 50_000

interface Waiting {
  readonly ref: Ref
  readonly atMs: number
}

/**
 * Refs that are not worth a look before some time. A million of them take 40 MB: a hash and a second each, and the
 * names of the soonest 50,000. When one of the others comes due, only a scan can tell its name: `horizonMs`.
 *
 * Two names under one hash share the earlier time, so a clash costs a look and never a delay.
 */
export class WaitingList {
  /** hash → second; negative when a change of the file does not end the wait, because the change was our own. */
  readonly #seconds = new Map<number, number>()
  #soonest = new Heap<Waiting>((a, b) => a.atMs < b.atMs)
  #horizonMs = Number.POSITIVE_INFINITY

  get size(): number {
    return this.#seconds.size
  }

  /** When the next one comes due whose name is known; epoch ms. */
  get nextAtMs(): number {
    return this.#soonest.peek()?.atMs ?? Number.POSITIVE_INFINITY
  }

  /** From this time on, refs are due whose names are not known; epoch ms. */
  get horizonMs(): number {
    return this.#horizonMs
  }

  add(ref: Ref, atMs: number, endsOnChange: boolean): void {
    const key = hash(ref)
    const before = this.#seconds.get(key)
    const second = Math.min(
      Math.ceil(atMs / 1000),
      before === undefined ? Number.POSITIVE_INFINITY : Math.abs(before),
    )
    this.#seconds.set(key, endsOnChange ? second : -second)
    this.#soonest.push({ ref, atMs })
    if (this.#soonest.size < 2 * NAMED) return
    const firstUnnamed = this.#soonest.truncate(NAMED)
    if (firstUnnamed !== undefined) this.#horizonMs = Math.min(this.#horizonMs, firstUnnamed.atMs)
  }

  isWaiting(ref: Ref, nowMs: number): boolean {
    if (this.#seconds.size === 0) return false
    const second = this.#seconds.get(hash(ref))
    return second !== undefined && Math.abs(second) * 1000 > nowMs
  }

  /** The file changed. Ends the wait and says true, unless it waits for a time that we gave it ourselves. */
  endOnChange(ref: Ref): boolean {
    if (this.#seconds.size === 0) return true
    const key = hash(ref)
    if ((this.#seconds.get(key) ?? 0) < 0) return false
    this.#seconds.delete(key)
    return true
  }

  /** Removes and returns one ref that is due, undefined when none is. */
  popDue(nowMs: number): Ref | undefined {
    const next = this.#soonest.peek()
    if (next === undefined || next.atMs > nowMs) return undefined
    this.#soonest.pop()
    this.#seconds.delete(hash(next.ref))
    return next.ref
  }

  /** Forgets everything: what still waits is learned again from a scan. */
  clear(): void {
    this.#seconds.clear()
    this.#soonest = new Heap<Waiting>((a, b) => a.atMs < b.atMs)
    this.#horizonMs = Number.POSITIVE_INFINITY
  }
}

/** FNV-1a, 32 bits: a small integer, which V8 keeps in a Map without an object of its own. */
function hash(ref: Ref): number {
  let value = 0x811c9dc5 | 0
  for (let i = 0; i < ref.length; i++) value = Math.imul(value ^ ref.charCodeAt(i), 0x01000193)
  return value
}
