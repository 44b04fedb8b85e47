import type { Rate } from './snapshot.js'

const SLOT_MS = 5000
/** Enough for a quarter of an hour, and one for the slot that is being filled. */
const SLOTS = 181

/** How often something happened per second, over the last 1, 5 and 15 minutes. Times are on the `performance.now()` clock. */
export class RateCounter {
  readonly #counts = new Uint32Array(SLOTS)
  readonly #startedAt: number
  /** The number of the newest slot since the start of the clock. */
  #newest: number

  constructor(now: number) {
    this.#startedAt = now
    this.#newest = Math.floor(now / SLOT_MS)
  }

  add(count: number, now: number): void {
    this.#turnTo(now)
    const at = this.#newest % SLOTS
    this.#counts[at] = (this.#counts[at] ?? 0) + count
  }

  rate(now: number): Rate {
    this.#turnTo(now)
    const perSecond = (minutes: number) => this.#perSecond(minutes * 60_000, now)
    return { m1: perSecond(1), m5: perSecond(5), m15: perSecond(15) }
  }

  #perSecond(windowMs: number, now: number): number {
    const slots = windowMs / SLOT_MS
    const from = Math.max(this.#startedAt, (this.#newest - slots) * SLOT_MS)
    let sum = 0
    for (let slot = this.#newest - slots; slot <= this.#newest; slot++)
      if (slot >= 0) sum += this.#counts[slot % SLOTS] ?? 0
    return sum / Math.max(1, (now - from) / 1000)
  }

  /** Makes the slot of `now` the newest, and empties the slots in between. */
  #turnTo(now: number): void {
    const slot = Math.floor(now / SLOT_MS)
    for (let passed = Math.max(this.#newest + 1, slot - SLOTS + 1); passed <= slot; passed++)
      this.#counts[passed % SLOTS] = 0
    this.#newest = Math.max(this.#newest, slot)
  }
}
