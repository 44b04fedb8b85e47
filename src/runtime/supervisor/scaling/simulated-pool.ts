import { Heap } from '../../../base/heap.js'
import { Queue } from '../../../base/queue.js'
import type { ScaledWorker } from './algorithm.js'
import type { SimulatedStarts } from './simulated-starts.js'

/** Times are microseconds. */
interface SimulatedWorker {
  readonly number: number
  readonly spawnedAt: number
  isStarting: boolean
  /** When its run ends; undefined: it is idle. */
  endsAt: number | undefined
  idleSince: number
  /** What workers of this number have run, up to the current run. */
  ran: number
  /** When the current run began. */
  begunAt: number
}

interface Begun {
  readonly waitMicros: number
  readonly runMicros: number
  readonly arrivedAt: number
}

/** The workers of a pool and the tasks that wait for them, without any process. */
export class SimulatedPool {
  readonly #starts: SimulatedStarts
  /** In the order in which they were spawned. */
  readonly #workers: SimulatedWorker[] = []
  readonly #running = new Heap<SimulatedWorker>((a, b) => (a.endsAt ?? 0) < (b.endsAt ?? 0))
  readonly #waiting = new Queue<{ arrivedAt: number; runMicros: number }>()
  /** What workers have run that are gone, by their numbers. */
  readonly #ran: number[] = []
  readonly #begun: (task: Begun) => void
  #target = 0
  /** How many workers there were, times how long. */
  #processMicros = 0
  #busyMicros = 0

  constructor(starts: SimulatedStarts, begun: (task: Begun) => void) {
    this.#starts = starts
    this.#begun = begun
  }

  get target(): number {
    return this.#target
  }

  get present(): number {
    return this.#workers.length
  }

  get backlog(): number {
    return this.#waiting.size
  }

  get running(): number {
    return this.#running.size
  }

  get nextEnd(): number {
    return this.#running.peek()?.endsAt ?? Number.POSITIVE_INFINITY
  }

  /** When the next worker that loads is ready. */
  get nextReady(): number {
    return this.#starts.next
  }

  /** A worker is ready. */
  join(now: number): void {
    for (const readyAt of this.#starts.goOn(now)) {
      const worker = this.#workers.find(({ isStarting }) => isStarting)
      if (worker === undefined) break
      worker.isStarting = false
      worker.idleSince = readyAt
    }
    this.dispatch(now)
  }

  processSeconds(now: number): number {
    let micros = this.#processMicros
    for (const { spawnedAt } of this.#workers) micros += now - spawnedAt
    return micros / 1e6
  }

  /** How long anything has run, of all workers together. */
  busySeconds(now: number): number {
    let micros = this.#busyMicros
    for (const worker of this.#workers) if (worker.endsAt !== undefined) micros += now - worker.begunAt
    return micros / 1e6
  }

  shown(now: number): ScaledWorker[] {
    return this.#workers.map(({ number, isStarting, endsAt, ran, begunAt }) => ({
      number,
      isStarting,
      isBusy: endsAt !== undefined,
      busyMicros: ran + (endsAt === undefined ? 0 : now - begunAt),
    }))
  }

  arrive(now: number, runMicros: number): void {
    this.#waiting.push({ arrivedAt: now, runMicros })
    this.dispatch(now)
  }

  /** @returns how long the task ran that ended first */
  end(now: number): number {
    const worker = this.#running.pop()
    if (worker === undefined) return 0
    const micros = now - worker.begunAt
    worker.ran += micros
    this.#busyMicros += micros
    worker.endsAt = undefined
    worker.idleSince = now
    if (this.#workers.length > this.#target) this.#leave(worker, now)
    this.dispatch(now)
    return micros
  }

  /** Spawns what is missing; lets those go that have been idle longest, and later those that become idle. */
  setTarget(target: number, now: number): void {
    this.#target = target
    while (this.#workers.length < target) {
      this.#starts.begin(now)
      this.#spawn(now, true)
    }
    while (this.#workers.length > target) {
      const idle = this.#workers.filter(({ endsAt, isStarting }) => endsAt === undefined && !isStarting)
      if (idle.length === 0) return
      this.#leave(
        idle.reduce((a, b) => (b.idleSince < a.idleSince ? b : a)),
        now,
      )
    }
  }

  /** It has so many workers, which are ready. */
  begin(workers: number): void {
    this.#target = workers
    while (this.#workers.length < workers) this.#spawn(0, false)
  }

  dispatch(now: number): void {
    for (const worker of this.#workers) {
      if (this.#waiting.size === 0) return
      if (worker.endsAt !== undefined || worker.isStarting) continue
      const task = this.#waiting.pop()
      if (task === undefined) return
      worker.begunAt = now
      worker.endsAt = now + task.runMicros
      this.#running.push(worker)
      this.#begun({ waitMicros: now - task.arrivedAt, runMicros: task.runMicros, arrivedAt: task.arrivedAt })
    }
  }

  #spawn(now: number, isStarting: boolean): void {
    const taken = new Set(this.#workers.map(({ number }) => number))
    let number = 1
    while (taken.has(number)) number++
    const ran = this.#ran[number] ?? 0
    this.#workers.push({
      number,
      spawnedAt: now,
      isStarting,
      endsAt: undefined,
      idleSince: now,
      ran,
      begunAt: 0,
    })
  }

  #leave(worker: SimulatedWorker, now: number): void {
    this.#workers.splice(this.#workers.indexOf(worker), 1)
    this.#ran[worker.number] = worker.ran
    this.#processMicros += now - worker.spawnedAt
  }
}
