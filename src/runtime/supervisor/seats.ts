import type { WorkerProcess } from './worker-process.js'

/** Numbers the workers of a pool as uWSGI does: each has the lowest number from 1 that no other has. */
export class Seats {
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
