import { Alarm } from '../base/clock.js'
import type { WorkerProcess } from './worker-process.js'

interface WatchdogOptions {
  /** 0: no deadline. */
  harakiriMs(): number
  workers(): Iterable<WorkerProcess>
  /** A task of it is past its deadline. */
  overran(worker: WorkerProcess): void
  /** It runs something slow, and has more that others could run. */
  slow(worker: WorkerProcess): void
}

/** A worker that was not heard of for so long, or whose oldest task is so old, runs something slow. */
const SLOW_MS = 50

/**
 * Watches over the workers from outside, so that a handler that blocks its event loop cannot hide: a worker tells of a
 * start before it makes it when its last word is 20 ms old, hence what it runs began then at the latest.
 */
export class Watchdog {
  readonly #options: WatchdogOptions
  readonly #alarm = new Alarm(() => this.#check())

  constructor(options: WatchdogOptions) {
    this.#options = options
  }

  /** To be called when a worker was given something. */
  look(): void {
    const harakiriMs = this.#options.harakiriMs()
    const now = performance.now()
    for (const worker of this.#options.workers()) {
      if (worker.hasAhead) this.#alarm.wakeAt(now + SLOW_MS)
      this.#alarm.wakeAt(worker.deadlineAt(harakiriMs))
    }
  }

  close(): void {
    this.#alarm.clear()
  }

  #check(): void {
    const { workers, overran, slow } = this.#options
    const harakiriMs = this.#options.harakiriMs()
    const now = performance.now()
    for (const worker of workers()) {
      if (now >= worker.deadlineAt(harakiriMs)) overran(worker)
      else if (worker.hasAhead && now >= (worker.runningSince ?? now) + SLOW_MS) slow(worker)
    }
    this.look()
  }
}
