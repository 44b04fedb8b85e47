/** How a spool is looked at. Times are epoch ms. */
export interface ScannerStats {
  readonly everyMs: number
  readonly hints: 'events' | 'poll' | 'none'
  readonly watched: number
  readonly refused: number
  readonly isSuspended: boolean
  readonly looks: number
  readonly lastAtMs: number | null
  readonly lastMs: number
  readonly lastFullMs: number
}

/** When scans ended, and how long they took. */
export class ScanTimes {
  #scans = 0
  /** When the last one ended, on the clock of `performance.now()`. */
  at = Number.NEGATIVE_INFINITY
  ms = 0
  /** Of the last one that listed everything. */
  fullMs = 0

  ended(startedAt: number, isFull: boolean): void {
    this.#scans++
    this.at = performance.now()
    this.ms = this.at - startedAt
    if (isFull) this.fullMs = this.ms
  }

  get stats(): Pick<ScannerStats, 'looks' | 'lastAtMs' | 'lastMs' | 'lastFullMs'> {
    return {
      looks: this.#scans,
      lastAtMs: this.#scans === 0 ? null : Math.round(Date.now() - (performance.now() - this.at)),
      lastMs: Math.round(this.ms),
      lastFullMs: Math.round(this.fullMs),
    }
  }
}
