import { Alarm } from '../../base/clock.js'
import type { WorkerProcess } from './worker-process.js'

interface WatchdogOptions {
  /** 0: no deadline. */
  harakiriMs(): number
  workers(): Iterable<WorkerProcess>
  /** One of its tasks is past its deadline. */
  overran(worker: WorkerProcess): void
  /** It runs a slow task, and has more tasks that other workers could run. */
  slow(worker: WorkerProcess): void
}

/** A worker that sent nothing for this long, or whose oldest task is this old, is running something slow. */
const SLOW_MS = 50

/**
 * Checks the workers from outside, so that a handler that blocks its event loop cannot escape. A worker whose last
 * message is 20 ms old announces a start before it makes it. So a task whose start was not announced began within
 * 20 ms of the worker's last message.
 */
export class Watchdog {
  readonly #options: WatchdogOptions
  readonly #alarm = new Alarm(() => this.#check())

  constructor(options: WatchdogOptions) {
    this.#options = options
  }

  /** Call it when a worker was given something. */
  look(): void {
    const harakiriMs = this.#options.harakiriMs()
    const now = performance.now()
    for (const worker of this.#options.workers()) {
      if (worker.work.hasAhead) this.#alarm.wakeAt(now + SLOW_MS)
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
      else if (worker.work.hasAhead && now >= (worker.work.runningSince ?? now) + SLOW_MS) slow(worker)
    }
    this.look()
  }
}
