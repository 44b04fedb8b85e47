import type { Emitter } from '../../base/events/emitter.js'
import { Histogram } from '../../base/task/histogram.js'
import type { Distribution, Times } from './snapshot.js'

interface SpoolTimes {
  readonly ran: Histogram
  readonly waited: Histogram
}

/** How long runs take and how long tasks wait, by spool. */
export class RunTimes {
  readonly #bySpool = new Map<string, SpoolTimes>()
  readonly #sinceMs = Date.now()

  constructor(events: Emitter) {
    events.on('run-times', ({ spool, ran, waited }) => {
      const times = this.#of(spool)
      times.ran.merge(ran)
      times.waited.merge(waited)
    })
  }

  of(spool: string): Times {
    const { ran, waited } = this.#of(spool)
    return { sinceMs: this.#sinceMs, ran: distributionOf(ran), waited: distributionOf(waited) }
  }

  #of(spool: string): SpoolTimes {
    const times = this.#bySpool.get(spool) ?? { ran: new Histogram(), waited: new Histogram() }
    this.#bySpool.set(spool, times)
    return times
  }
}

function distributionOf(histogram: Histogram): Distribution {
  return {
    count: histogram.count,
    sumMicros: Math.round(histogram.sum),
    p50Micros: histogram.quantile(0.5),
    p95Micros: histogram.quantile(0.95),
    p99Micros: histogram.quantile(0.99),
    buckets: histogram.buckets,
  }
}
