import { Heap } from '../../../base/heap.js'
import { Queue } from '../../../base/queue.js'
import { Histogram } from '../../../base/task/histogram.js'
import {
  EAGER_PACE_MS,
  type ScaledWorker,
  type ScalingOptions,
  type Snapshot,
} from '../../../runtime/supervisor/scaling/algorithm.js'
import { type NamedAlgorithm, Scaler } from '../../../runtime/supervisor/scaling/algorithms.js'

const SECOND = 1_000_000

/** Tasks in the order in which they arrive. The n-th number of each array belongs to the n-th task, in microseconds. */
export interface Arrivals {
  readonly arrivedAt: Float64Array
  readonly runMicros: Float64Array
}

export interface SimulationOptions {
  readonly scaling: ScalingOptions
  /** The number of workers at the beginning. */
  readonly initial: number
  readonly tickMicros: number
  /** How long a worker takes to become ready if it has a processor to itself. */
  readonly startMicros: number
  /** The simulation goes on at least until this time, and until all tasks have ended. */
  readonly untilMicros: number
  /** The simulation ends this long after `untilMicros`, even if tasks are left, because the pool does not keep up. */
  readonly giveUpMicros: number
}

/** The figures of one second. */
interface SimulatedSecond {
  /** The number of workers at the end of the second. */
  readonly workers: number
  readonly backlog: number
  /** The share of the workers' time in which a task ran, in percent. */
  readonly busyness: number
  /** The longest wait of a task that began in this second. */
  readonly waitMs: number
}

export interface Simulation {
  readonly algorithm: string
  readonly seconds: readonly SimulatedSecond[]
  readonly processSeconds: number
  readonly tasks: number
  /** Quantiles of the time that tasks waited. */
  readonly p50Ms: number
  readonly p95Ms: number
  readonly maxMs: number
  /** When the last task had ended. */
  readonly doneMs: number
  /** How often the pool began to shrink after it had grown, or to grow after it had shrunk. */
  readonly reversals: number
  /** The number of tasks that had not begun at the end. */
  readonly left: number
  /** The lines of the algorithm for the log. */
  readonly lines: readonly string[]
  /** Why the algorithm could not decide. */
  readonly problems: readonly string[]
}

/** Runs an algorithm on simulated workers, which are no processes. */
export function simulate(
  algorithm: NamedAlgorithm,
  arrivals: Arrivals,
  options: SimulationOptions,
): Simulation {
  return new Run(algorithm, arrivals, options).result()
}

class Run {
  readonly #arrivals: Arrivals
  readonly #options: SimulationOptions
  readonly #scaler: Scaler
  readonly #pool: SimulatedPool
  #now = 0
  #next = 0
  #nextTick: number
  #nextLook = Number.POSITIVE_INFINITY
  #decidedAt = Number.NEGATIVE_INFINITY
  #arrived = 0
  #finished = 0
  #runs = new Histogram()
  #waits = new Histogram()
  readonly #allWaits: Float64Array
  #begun = 0
  #doneAt = 0
  readonly #seconds: SimulatedSecond[] = []
  #longestWait = 0
  #busyBefore = 0
  #processesBefore = 0
  #presentBefore: number
  #direction = 0
  #reversals = 0
  readonly #lines: string[]
  readonly #problems: string[] = []

  constructor(algorithm: NamedAlgorithm, arrivals: Arrivals, options: SimulationOptions) {
    const { scaling, startMicros } = options
    this.#arrivals = arrivals
    this.#options = options
    this.#scaler = new Scaler(algorithm)
    this.#allWaits = new Float64Array(arrivals.arrivedAt.length)
    const starts = new SimulatedStarts(startMicros, scaling.processors)
    this.#pool = new SimulatedPool(starts, waitMicros => this.#noteBegun(waitMicros))
    this.#nextTick = options.tickMicros
    this.#lines = [...(algorithm.introduce?.(options.scaling) ?? [])]
    this.#pool.begin(options.initial)
    this.#presentBefore = options.initial
  }

  result(): Simulation {
    const { arrivedAt } = this.#arrivals
    while (this.#isGoingOn) this.#step()
    if (this.#seconds.length === 0) this.#endSecond()
    for (let at = this.#begun; at < arrivedAt.length; at++)
      this.#allWaits[at] = this.#now - (arrivedAt[at] ?? 0)
    const waits = this.#allWaits.sort()
    const quantile = (share: number) => (waits[Math.ceil(waits.length * share) - 1] ?? 0) / 1000
    return {
      algorithm: this.#scaler.algorithm.name,
      seconds: this.#seconds,
      processSeconds: this.#pool.processSeconds(this.#now),
      tasks: arrivedAt.length,
      p50Ms: quantile(0.5),
      p95Ms: quantile(0.95),
      maxMs: quantile(1),
      doneMs: this.#doneAt / 1000,
      reversals: this.#reversals,
      left: arrivedAt.length - this.#begun,
      lines: this.#lines,
      problems: this.#problems,
    }
  }

  get #isGoingOn(): boolean {
    const { untilMicros, giveUpMicros } = this.#options
    if (this.#now < untilMicros || this.#next < this.#arrivals.arrivedAt.length) return true
    return this.#pool.backlog + this.#pool.running > 0 && this.#now < untilMicros + giveUpMicros
  }

  /** Goes on to the next event: a second ends, a task arrives or ends, a worker is ready, or the algorithm is asked. */
  #step(): void {
    const second = (this.#seconds.length + 1) * SECOND
    const arrival = this.#arrivals.arrivedAt[this.#next] ?? Number.POSITIVE_INFINITY
    const { nextEnd: end, nextReady: ready } = this.#pool
    const decision = Math.min(this.#nextTick, this.#nextLook)
    const now = Math.min(second, arrival, end, ready, decision)
    this.#now = now
    if (now === end) this.#end()
    else if (now === arrival) this.#arrive()
    else if (now === ready) this.#join()
    else if (now === decision) this.#decide()
    else this.#endSecond()
    this.#noteDirection()
  }

  #arrive(): void {
    this.#arrived++
    const runMicros = this.#arrivals.runMicros[this.#next++] ?? 0
    this.#pool.arrive(this.#now, runMicros)
    this.#lookSoon()
  }

  #end(): void {
    this.#runs.add(this.#pool.end(this.#now))
    this.#finished++
    this.#doneAt = this.#now
    this.#lookSoon()
  }

  #join(): void {
    this.#pool.join(this.#now)
    this.#lookSoon()
  }

  #lookSoon(): void {
    if (this.#scaler.algorithm.isEager !== true) return
    const soonest = Math.max(this.#now, this.#decidedAt + EAGER_PACE_MS * 1000)
    this.#nextLook = Math.min(this.#nextLook, soonest)
  }

  #noteBegun(waitMicros: number): void {
    this.#waits.add(waitMicros)
    this.#allWaits[this.#begun++] = waitMicros
    this.#longestWait = Math.max(this.#longestWait, waitMicros)
  }

  #decide(): void {
    const now = this.#now
    this.#decidedAt = now
    if (now === this.#nextTick) this.#nextTick += this.#options.tickMicros
    const decision = this.#scaler.decide(this.#snapshot())
    if (decision.lines !== undefined) this.#lines.push(...decision.lines)
    if (decision.problem !== undefined) this.#problems.push(decision.problem)
    this.#pool.setTarget(decision.target, now)
    this.#pool.dispatch(now)
    this.#nextLook = now + (decision.askAgainMicros ?? Number.POSITIVE_INFINITY)
    this.#arrived = 0
    this.#finished = 0
    if (this.#runs.count > 0) this.#runs = new Histogram()
    if (this.#waits.count > 0) this.#waits = new Histogram()
  }

  #snapshot(): Snapshot {
    const pool = this.#pool
    return {
      options: this.#options.scaling,
      nowMicros: this.#now,
      openedMicros: 0,
      workers: pool.shown(this.#now),
      delayed: 0,
      target: pool.target,
      canSpawn: true,
      backlog: pool.backlog,
      running: pool.running,
      signals: 0,
      arrived: this.#arrived,
      finished: this.#finished,
      runs: this.#runs,
      waits: this.#waits,
    }
  }

  /** Counts reversals by the workers that are present, because a worker that is busy when its pool shrinks leaves later. */
  #noteDirection(): void {
    const direction = Math.sign(this.#pool.present - this.#presentBefore)
    if (direction === 0) return
    if (this.#direction !== 0 && direction !== this.#direction) this.#reversals++
    this.#direction = direction
    this.#presentBefore = this.#pool.present
  }

  #endSecond(): void {
    const busy = this.#pool.busySeconds(this.#now)
    const processes = this.#pool.processSeconds(this.#now)
    const share = (busy - this.#busyBefore) / (processes - this.#processesBefore || 1)
    this.#seconds.push({
      workers: this.#pool.present,
      backlog: this.#pool.backlog,
      busyness: Math.round(100 * share),
      waitMs: this.#longestWait / 1000,
    })
    this.#busyBefore = busy
    this.#processesBefore = processes
    this.#longestWait = 0
  }
}

/** A simulated worker. Times are microseconds. */
interface SimulatedWorker {
  readonly number: number
  readonly spawnedAt: number
  isStarting: boolean
  /** When the current run ends; undefined if the worker is idle. */
  endsAt: number | undefined
  idleSince: number
  /** How long workers of this number have run tasks, without the current run. */
  ran: number
  /** When the current run began. */
  begunAt: number
}

/** The workers of a pool and the tasks that wait for them, without any process. */
class SimulatedPool {
  readonly #starts: SimulatedStarts
  /** The workers in the order in which they were spawned. */
  readonly #workers: SimulatedWorker[] = []
  readonly #running = new Heap<SimulatedWorker>((a, b) => (a.endsAt ?? 0) < (b.endsAt ?? 0))
  readonly #waiting = new Queue<{ arrivedAt: number; runMicros: number }>()
  /** How long workers that are gone have run tasks, by their numbers. */
  readonly #ran: number[] = []
  readonly #begun: (waitMicros: number) => void
  #target = 0
  /** The sum of the lifetimes of the workers that are gone. */
  #processMicros = 0
  #busyMicros = 0

  constructor(starts: SimulatedStarts, begun: (waitMicros: number) => void) {
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

  /** When the next starting worker is ready. */
  get nextReady(): number {
    return this.#starts.next
  }

  /** Lets the workers in that are ready by now. */
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

  /** How long tasks have run, in all workers together. */
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

  /** Ends the task whose run is over first. @returns how long it ran */
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

  /** Spawns missing workers. Surplus ones leave: those that have been idle longest now, the others when they become idle. */
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

  /** Fills the pool with this many workers, which are ready. */
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
      this.#begun(now - task.arrivedAt)
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

/** The starts of workers. Each keeps a processor busy; more starts than processors share them. Times are microseconds. */
export class SimulatedStarts {
  readonly #startMicros: number
  readonly #processors: number
  /** The processor time that a start has had by `#doneAt` if it has gone on since the beginning. */
  #done = 0
  #doneAt = 0
  /** For each start, the value of `#done` at which it is ready, in the order in which the starts began. */
  readonly #ends: number[] = []

  /** @param startMicros how long a start takes with a processor of its own */
  constructor(startMicros: number, processors: number) {
    this.#startMicros = startMicros
    this.#processors = processors
  }

  /** When the next worker is ready; infinite if none starts. */
  get next(): number {
    const [end] = this.#ends
    return end === undefined ? Number.POSITIVE_INFINITY : this.#doneAt + (end - this.#done) / this.#pace
  }

  begin(now: number): void {
    this.goOn(now)
    this.#ends.push(this.#done + this.#startMicros)
  }

  /** Goes on to a time. @returns when workers became ready since the last call, in the order in which their starts began */
  goOn(now: number): readonly number[] {
    const ready: number[] = []
    for (let { next } = this; next <= now; { next } = this) {
      this.#done = this.#ends.shift() ?? this.#done
      this.#doneAt = next
      ready.push(next)
    }
    this.#done += (now - this.#doneAt) * this.#pace
    this.#doneAt = now
    return ready
  }

  get #pace(): number {
    return Math.min(1, this.#processors / Math.max(1, this.#ends.length))
  }
}
