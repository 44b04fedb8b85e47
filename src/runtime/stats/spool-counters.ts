import type { EventMap } from '../../base/events/event-map.js'
import { RateCounter } from './rates.js'
import type { Rates, Totals } from './snapshot.js'

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

/** The totals of a spool in which nothing has happened yet. */
export const NO_TOTALS: Totals = {
  done: 0,
  retried: 0,
  errors: 0,
  ignored: 0,
  buried: 0,
  setAside: 0,
  unsettled: 0,
  crashes: 0,
  overran: 0,
  hostsDied: 0,
  outOfMercy: 0,
  spawned: 0,
  recycled: 0,
  watchesLost: 0,
  purged: 0,
}

/** What happened in one spool since its start. A batch of reports costs a few additions. */
export class SpoolCounters {
  readonly totals: Mutable<Totals> = { ...NO_TOTALS }
  readonly #done = new RateCounter(performance.now())
  readonly #failed = new RateCounter(performance.now())

  reported({ done, reports }: EventMap['tasks-reported']): void {
    const { totals } = this
    const [ranBefore, failedBefore] = [totals.done, this.#failures]
    totals.done += done.length
    for (const { kind } of reports)
      switch (kind) {
        case 'ok':
          totals.done++
          break
        case 'retry':
          totals.retried++
          break
        case 'error':
          totals.errors++
          break
        case 'ignore':
          totals.ignored++
          break
        case 'buried':
          totals.buried++
          break
        case 'set-aside':
          totals.setAside++
          break
        case 'unsettled':
          totals.unsettled++
          break
      }
    const now = performance.now()
    if (totals.done > ranBefore) this.#done.add(totals.done - ranBefore, now)
    if (this.#failures > failedBefore) this.#failed.add(this.#failures - failedBefore, now)
  }

  /** Counts a process that died. @param running how many runs ended with it: together, they count as one failed run */
  crashed(running: number): void {
    this.totals.crashes++
    if (running > 0) this.#failed.add(1, performance.now())
  }

  get rates(): Rates {
    const now = performance.now()
    const [done, failed] = [this.#done.rate(now), this.#failed.rate(now)]
    const ran = done.m5 + failed.m5
    return { done, failed, failedShare: ran === 0 ? null : failed.m5 / ran }
  }

  get #failures(): number {
    const { retried, errors, buried, unsettled } = this.totals
    return retried + errors + buried + unsettled
  }
}
