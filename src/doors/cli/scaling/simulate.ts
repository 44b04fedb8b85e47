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

/** Tasks in the order in which they arrive; the n-th number of each is of the n-th task, in microseconds. */
export interface Arrivals {
  readonly arrivedAt: Float64Array
  readonly runMicros: Float64Array
}

export interface SimulationOptions {
  readonly scaling: ScalingOptions
  /** How many workers there are at first. */
  readonly initial: number
  readonly tickMicros: number
  /** How long a worker takes to become ready, if it has a processor. */
  readonly startMicros: number
  /** It goes on until then, and until all tasks have ended. */
  readonly untilMicros: number
  /** But no longer than that, if the pool does not keep up. */
  readonly giveUpMicros: number
}

/** One second. */
interface SimulatedSecond {
  /** At its end. */
  readonly workers: number
  readonly backlog: number
  /** Percent of the time of its workers in which anything ran. */
  readonly busyness: number
  /** The longest wait of a task that began in it, in milliseconds. */
  readonly waitMs: number
}

export interface Simulation {
  readonly algorithm: string
  readonly seconds: readonly SimulatedSecond[]
  readonly processSeconds: number
  readonly tasks: number
  /** Of the time that tasks waited. */
  readonly p50Ms: number
  readonly p95Ms: number
  readonly maxMs: number
  /** When the last task had ended. */
  readonly doneMs: number
  /** How often it began to shrink after it had grown, or to grow after it had shrunk. */
  readonly reversals: number
  /** Tasks that had not begun when it gave up. */
  readonly left: number
  /** What the algorithm said in the log. */
  readonly lines: readonly string[]
  /** Why it could not decide. */
  readonly problems: readonly string[]
}

/** Lets an algorithm decide about workers that exist on paper only. */
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

  /** Whatever comes next: a second ends, a task arrives or ends, a worker is ready, or the algorithm is asked. */
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

  /** A worker that was busy when it was asked to go leaves later. */
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

/** The workers of a pool and the tasks that wait for them, without any process. */
class SimulatedPool {
  readonly #starts: SimulatedStarts
  /** In the order in which they were spawned. */
  readonly #workers: SimulatedWorker[] = []
  readonly #running = new Heap<SimulatedWorker>((a, b) => (a.endsAt ?? 0) < (b.endsAt ?? 0))
  readonly #waiting = new Queue<{ arrivedAt: number; runMicros: number }>()
  /** What workers have run that are gone, by their numbers. */
  readonly #ran: number[] = []
  readonly #begun: (waitMicros: number) => void
  #target = 0
  /** How many workers there were, times how long. */
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

/** Times are microseconds. Each start keeps a processor busy; where there are more starts than processors, they share them. */
export class SimulatedStarts {
  readonly #startMicros: number
  readonly #processors: number
  /** What each start that has gone on all the time has done. */
  #done = 0
  #doneAt = 0
  /** What `#done` will be when each is ready, in the order in which they began. */
  readonly #ends: number[] = []

  /** @param startMicros how long a start takes that has a processor of its own */
  constructor(startMicros: number, processors: number) {
    this.#startMicros = startMicros
    this.#processors = processors
  }

  /** When the next one is ready; infinite: none starts. */
  get next(): number {
    const [end] = this.#ends
    return end === undefined ? Number.POSITIVE_INFINITY : this.#doneAt + (end - this.#done) / this.#pace
  }

  begin(now: number): void {
    this.goOn(now)
    this.#ends.push(this.#done + this.#startMicros)
  }

  /** @returns when those became ready that have since the last call, in the order in which they began */
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
