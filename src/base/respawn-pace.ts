/** While tasks end in between, this many failures in a row are free, and then one per second. */
const BURST = 20
const REFILL_MS = 1000
/** If no task ends: 0, 0.1 s, 0.2 s, … 3.2 s, and then this long each time. */
const FIRST_DELAY_MS = 100
const LAST_DOUBLED_MS = 5000
const MAX_DELAY_MS = 30_000
/** A process that lived this long failed for a reason of its own. */
const LONG_LIFE_MS = 30_000

/**
 * When a process that failed is replaced. As long as tasks end between two failures, the failures are those of single
 * tasks, which have limits of their own, and the others must not wait. When none does, each failure doubles the wait,
 * and the waits follow each other, however many processes fail at once.
 *
 * Times are on the clock of `performance.now()`.
 */
export class RespawnPace {
  #tokens = BURST
  #refilledAt = 0
  /** Failures in a row between which nothing was done. */
  #streak = 0
  #hasProgressed = true
  /** The last replacement that was promised comes then. */
  #lastAt = 0

  /** A task ended, as tasks do. @returns whether nothing had been done for some failures: then nobody has to wait any more */
  progressed(): boolean {
    this.#hasProgressed = true
    const wasStuck = this.#streak > 0
    this.#streak = 0
    return wasStuck
  }

  /** @returns after how many ms the process is to be replaced */
  failed(livedMs: number, now = performance.now()): number {
    const isNew = this.#hasProgressed || livedMs >= LONG_LIFE_MS
    this.#hasProgressed = false
    if (isNew) {
      this.#streak = 0
      this.#lastAt = now
      return this.delayOfBurst(now)
    }
    this.#streak++
    this.#lastAt = Math.max(now, this.#lastAt) + delayAfter(this.#streak)
    return this.#lastAt - now
  }

  /** @returns how long one of those that need not wait for progress waits */
  delayOfBurst(now = performance.now()): number {
    this.#tokens = Math.min(BURST, this.#tokens + (now - this.#refilledAt) / REFILL_MS)
    this.#refilledAt = now
    this.#tokens--
    return this.#tokens >= 0 ? 0 : -this.#tokens * REFILL_MS
  }
}

function delayAfter(streak: number): number {
  const doubledMs = FIRST_DELAY_MS * 2 ** (streak - 1)
  return doubledMs > LAST_DOUBLED_MS ? MAX_DELAY_MS : doubledMs
}
