interface Counts {
  readonly ready: number
  readonly busy: number
  readonly waiting: number
}

/** While the backlog is this long and tasks end this fast, events would cost more than they tell: three a task. */
export const LONG_BACKLOG = 5000
const FAST_TASKS_PER_SECOND = 2000
/** How long a rate is measured; ms. */
export const RATE_WINDOW_MS = 100

/** Measures whether the workers race through a long backlog. */
export class DrainRate {
  #since = performance.now()
  #tasks = 0

  /** On the clock of `performance.now()`: when there is enough to judge by. */
  get judgeableAt(): number {
    return this.#since + RATE_WINDOW_MS
  }

  tasksEnded(count: number): void {
    this.#tasks += count
  }

  restart(): void {
    this.#tasks = 0
    this.#since = performance.now()
  }

  /**
   * Of the time since the last judgement; undefined before there is enough, or while no worker has anything to end.
   *
   * @param ready the backlog now
   * @param waiting what a listing meets in vain, which has to follow once events were missed
   */
  judge({ ready, busy, waiting }: Counts): boolean | undefined {
    const now = performance.now()
    if (now < this.judgeableAt) return undefined
    if (busy === 0 && this.#tasks === 0) {
      this.restart()
      return undefined
    }
    const rate = (this.#tasks * 1000) / (now - this.#since)
    this.restart()
    return rate > FAST_TASKS_PER_SECOND && ready > Math.max(LONG_BACKLOG, waiting)
  }
}
