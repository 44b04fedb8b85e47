import type { Emitter } from '../../base/events/emitter.js'
import { Histogram } from '../../base/task/histogram.js'
import type { Distribution, Times } from './snapshot.js'

/** Run times are measured for this long after they were asked for: whoever scrapes every few minutes gets all of them. */
const MEASURED_MS = 600_000

interface SpoolTimes {
  readonly ran: Histogram
  readonly waited: Histogram
}

/** How long runs take and how long tasks wait, by spool. While they are not asked for, workers do not measure them. */
export class RunTimes {
  readonly #events: Emitter
  readonly #bySpool = new Map<string, SpoolTimes>()
  #sinceMs: number | null = null
  #stop: () => void = () => {}
  #timer: NodeJS.Timeout | undefined

  constructor(events: Emitter) {
    this.#events = events
  }

  /** Measures from now on, or longer. */
  ask(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.close(), MEASURED_MS).unref()
    if (this.#sinceMs !== null) return
    this.#sinceMs = Date.now()
    this.#stop = this.#events.on('run-times', ({ spool, ran, waited }) => {
      const times = this.#of(spool)
      times.ran.merge(ran)
      times.waited.merge(waited)
    })
  }

  of(spool: string): Times {
    const { ran, waited } = this.#of(spool)
    return { sinceMs: this.#sinceMs, ran: distributionOf(ran), waited: distributionOf(waited) }
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#stop()
    this.#stop = () => {}
    this.#sinceMs = null
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
