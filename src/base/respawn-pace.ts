/** While tasks still finish between failures: this many failures are free, then one per second. */
const BURST = 20
const REFILL_MS = 1000
/** While no task finishes: 0, 0.1 s, 0.2 s, … 3.2 s, then `MAX_DELAY_MS` each time. */
const FIRST_DELAY_MS = 100
const LAST_DOUBLED_MS = 5000
const MAX_DELAY_MS = 30_000
/** A process that lived this long did not fail for the same reason as the one before it. */
const LONG_LIFE_MS = 30_000

/**
 * Decides when a failed process is replaced. As long as tasks finish between two failures, single tasks are at fault;
 * they have limits of their own, and the other tasks must not wait. If no task finishes, each failure doubles the
 * wait, and the waits run one after another, however many processes fail at once.
 *
 * Times are on the `performance.now()` clock.
 */
export class RespawnPace {
  #tokens = BURST
  #refilledAt = 0
  /** Consecutive failures with no task finished in between. */
  #streak = 0
  #hasProgressed = true
  /** When the last scheduled replacement is due. */
  #lastAt = 0

  /** A task finished. @returns true if it ends a streak of failures, so that no replacement has to wait any longer */
  progressed(): boolean {
    this.#hasProgressed = true
    const wasStuck = this.#streak > 0
    this.#streak = 0
    return wasStuck
  }

  /** @returns the delay before the process is replaced, in ms */
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

  /** @returns the delay of a replacement that does not wait for progress, in ms */
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
