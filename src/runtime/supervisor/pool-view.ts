import type { Load } from './load.js'
import type { Roster } from './roster.js'
import type { ScaledWorker, ScalingOptions, Snapshot } from './scaling/algorithm.js'
import type { WorkerProcess } from './worker-process.js'

/** A pool as algorithms see it. */
export class PoolView {
  readonly #roster: Roster
  readonly #load: Load
  readonly #numbers = new WorkerNumbers()
  readonly #openedAt = performance.now()
  /** What is not sorted yet may not be due: until it is, no more than was known before. */
  #backlog = 0

  constructor(roster: Roster, load: Load) {
    this.#roster = roster
    this.#load = load
  }

  /** The number of a worker, from 1. */
  numberOf(worker: WorkerProcess): number {
    this.#numbers.assign(this.#roster.workers)
    return this.#numbers.numberOf(worker)
  }

  /** @param nowMs of `performance.now()` */
  snapshot(options: ScalingOptions, nowMs: number, canSpawn: boolean): Snapshot {
    const { workers: all, target, delayed } = this.#roster
    this.#numbers.assign(all)
    const workers = [...all].filter(({ state }) => state !== 'draining')
    const isSorting = workers.some(({ work }) => work.activity.isSorting)
    const { backlog } = this.#load
    this.#backlog = isSorting ? Math.min(this.#backlog, backlog) : backlog
    return {
      options,
      nowMicros: nowMs * 1000,
      openedMicros: this.#openedAt * 1000,
      workers: workers.map(worker => this.#seen(worker)),
      // of one that recycles, the successor is to come
      delayed: Math.max(delayed, target - workers.length),
      target,
      canSpawn,
      backlog: this.#backlog,
      running: this.#load.running,
      signals: this.#load.signals,
      ...this.#load.takeNews(isSorting),
    }
  }

  #seen(worker: WorkerProcess): ScaledWorker {
    const { state, isOpen } = worker
    const { outstanding, concurrency, activity } = worker.work
    return {
      number: this.#numbers.numberOf(worker),
      isStarting: state === 'starting' || (outstanding === 0 && !isOpen),
      isBusy: outstanding >= concurrency && !activity.isSorting,
      busyMicros: this.#numbers.busyMsOf(worker) * 1000,
    }
  }
}

/** Numbers the workers of a pool as uWSGI does: each has the lowest number from 1 that no other has. */
class WorkerNumbers {
  readonly #taken = new Map<WorkerProcess, number>()
  /** How long the workers that are gone were busy, by their numbers; ms. */
  readonly #past = new Map<number, number>()

  /** Call it with all workers whenever numbers are asked for; in the order in which they were spawned. */
  assign(workers: ReadonlySet<WorkerProcess>): void {
    for (const [worker, number] of this.#taken) {
      if (workers.has(worker)) continue
      this.#taken.delete(worker)
      this.#past.set(number, (this.#past.get(number) ?? 0) + worker.work.activity.busyMs)
    }
    const numbers = new Set(this.#taken.values())
    for (const worker of workers) {
      if (this.#taken.has(worker)) continue
      let free = 1
      while (numbers.has(free)) free++
      numbers.add(free)
      this.#taken.set(worker, free)
    }
  }

  numberOf(worker: WorkerProcess): number {
    return this.#taken.get(worker) ?? 0
  }

  /** How long workers of this number have been busy: it never decreases. */
  busyMsOf(worker: WorkerProcess): number {
    return (this.#past.get(this.numberOf(worker)) ?? 0) + worker.work.activity.busyMs
  }
}
