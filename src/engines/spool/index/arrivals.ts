import type { Ref } from '../../../base/task/ref.js'
import { createdAtMicros } from '../names.js'

/** So many times are remembered twice over: more than a window has refs. */
const REMEMBERED = 120_000
/** Clocks of other hosts may be ahead by so much; a name from further in the future counts as a free one. */
const AHEAD_MS = 1000

/**
 * When each ref became runnable; epoch µs. A generated name says so itself. Of others the first sight is remembered, and
 * of a task that ran the time of its next run: until they are forgotten, or so many came after them that memory is bounded.
 */
export class Arrivals {
  #times = new Map<Ref, number>()
  #earlier = new Map<Ref, number>()
  #lastSight = 0

  of(ref: Ref, nowMs: number): number {
    const known = this.#recall(ref)
    if (known !== undefined) return known
    const created = createdAtMicros(ref)
    if (created !== undefined && created <= (nowMs + AHEAD_MS) * 1000) return created
    // a microsecond apart: free names that one look met stay in its order, and are compared at the price of two numbers
    this.#lastSight = Math.max(nowMs * 1000, this.#lastSight + 1)
    this.#remember(ref, this.#lastSight)
    return this.#lastSight
  }

  runsAt(ref: Ref, atMs: number): void {
    this.#remember(ref, atMs * 1000)
  }

  forget(ref: Ref): void {
    if (this.#times.size > 0) this.#times.delete(ref)
    if (this.#earlier.size > 0) this.#earlier.delete(ref)
  }

  #remember(ref: Ref, time: number): void {
    if (this.#times.size >= REMEMBERED) {
      this.#earlier = this.#times
      this.#times = new Map()
    }
    this.#times.set(ref, time)
  }

  #recall(ref: Ref): number | undefined {
    const at = this.#times.size === 0 ? undefined : this.#times.get(ref)
    if (at !== undefined || this.#earlier.size === 0) return at
    return this.#earlier.get(ref)
  }
}
