import { Alarm } from '../../base/clock.js'
import { Histogram } from '../../base/task/histogram.js'
import type { PoolContext, PoolScaling, SizeOptions } from './pool-options.js'
import type { Roster } from './roster.js'
import { EAGER_PACE_MS, type ScaledWorker, type ScalingOptions, type Snapshot } from './scaling/algorithm.js'
import { Scaler } from './scaling/algorithms.js'
import type { WorkerProcess } from './worker-process.js'

/** What people ask of a pool: `to` so many workers, `by` so many more or fewer, or again what its options say. */
export type Wish = { readonly to: number } | { readonly by: number } | 'auto'

export interface PoolSizeContext extends PoolContext {
  readonly roster: Roster
  /** The number of tasks that the lone worker has; of signals that wait or run; and of tasks that have crashed and may run now. */
  readonly beside: { readonly alone: number; readonly signals: number; readonly crashed: number }
}

// Longer than others: everything that changes the number of workers is here, because each reason has to give way to another.
/**
 * Decides how many workers a pool has: a fixed number, or as many as its algorithm or people say; and none while it sleeps, until
 * there is something to do.
 *
 * While it is frozen, only waking changes anything: a reload replaces the workers.
 */
export class PoolSize {
  #options: SizeOptions
  readonly #pool: PoolSizeContext
  readonly #view: PoolView
  #scaler: Scaler | undefined
  /** Rings once the pool has been idle for as long as it may. */
  readonly #idleAlarm = new Alarm(() => this.sleep('nothing to do'))
  #byHand: number | undefined
  #reason: string | null = null
  /** The workers are being replaced. */
  #isFrozen = false
  /** False: memory is short. */
  #mayGrow = true
  #decidedAt = Number.NEGATIVE_INFINITY
  readonly #nextDecision = new Alarm(() => {
    if (!this.#pool.roster.isClosed && !this.#isFrozen && this.#byHand === undefined) this.#decide()
  })

  constructor(options: SizeOptions, pool: PoolSizeContext) {
    this.#pool = pool
    this.#view = new PoolView(pool)
    this.#options = options
    this.#adopt(options)
    pool.roster.target = initialSize(options)
  }

  get stats() {
    return {
      algorithm: this.#scaler?.algorithm.name ?? null,
      minimum: this.#minimum,
      maximum: this.#options.processes,
      reason: this.#reason,
      isByHand: this.#byHand !== undefined,
    }
  }

  /** How many workers there should be; during a reload, after it. */
  get wanted(): number {
    return this.#byHand ?? this.#pool.roster.target
  }

  /** True if an algorithm decides, so that `tick` has to be called. */
  get isAdaptive(): boolean {
    return this.#options.scaling !== null
  }

  /** True if there need be no worker until there is something to do. */
  get mayBeEmpty(): boolean {
    return this.#options.startsCheap || this.#minimum === 0
  }

  get isFrozen(): boolean {
    return this.#isFrozen
  }

  /** True if a worker is to go as soon as one is idle. */
  get isShrinking(): boolean {
    return this.#pool.roster.excess > 0
  }

  /** The options from now on. The number of workers stays, as far as they allow it. */
  set options(options: SizeOptions) {
    this.#options = options
    this.#adopt(options)
    const { roster } = this.#pool
    if (roster.target === 0) return
    if (this.#byHand !== undefined) this.#byHand = this.#allowed(this.#byHand)
    roster.target =
      this.#byHand ?? (options.scaling === null ? options.processes : this.#allowed(roster.target))
  }

  /** @param isFrozen the workers are being replaced */
  freeze(isFrozen: boolean): void {
    this.#isFrozen = isFrozen
    if (isFrozen) return this.#idleAlarm.clear()
    if (this.#pool.roster.isClosed) return
    if (this.#byHand !== undefined) this.#change(this.#byHand, 'by hand')
    this.look()
  }

  /** Dismisses idle workers that are to go. Call it before workers are given more. */
  letGo(): void {
    if (!this.#isFrozen) this.#pool.roster.trim()
  }

  /**
   * Call it when tasks have come or ended, or a worker is ready or gone, after what can be given out was given out. Costs next to
   * nothing if the number is fixed.
   */
  look(): void {
    const { roster, isHalted } = this.#pool
    if (roster.isClosed) return
    if (roster.target === 0 && !isHalted && this.#view.load > 0) this.#wake()
    if (this.#isFrozen) return
    if (this.#byHand === undefined) {
      const { idleMs } = this.#options
      const isIdle = idleMs > 0 && this.#view.load === 0 && roster.target > 0
      if (isIdle) this.#idleAlarm.wakeAt(performance.now() + idleMs)
      else this.#idleAlarm.clear()
      if (this.#scaler?.algorithm.isEager === true) this.#decideSoon()
    }
    roster.trim()
  }

  /** Call it when a check interval is over. @param mayGrow false: memory is short */
  tick(mayGrow: boolean): void {
    this.#mayGrow = mayGrow
    if (this.#isFrozen || this.#pool.roster.isClosed) return
    const sleeps = this.#pool.roster.target === 0 && this.#minimum > 0
    if (this.#byHand === undefined && !sleeps) this.#decide()
    this.#pool.roster.trim()
  }

  /** @throws Error that says what is wrong with the wish */
  set(wish: Wish, because: string): void {
    if (wish === 'auto') {
      this.#byHand = undefined
      if (this.#options.scaling === null) this.#change(this.#options.processes, because)
      return this.look()
    }
    const wanted = 'to' in wish ? wish.to : this.wanted + wish.by
    const [least, most] = [Math.max(1, this.#minimum), this.#options.processes]
    if (wanted < least || wanted > most)
      throw new Error(
        `expected ${least} to ${most} processes, got ${wanted}; spooler-processes is the maximum`,
      )
    this.#byHand = wanted
    this.#idleAlarm.clear()
    if (!this.#isFrozen) this.#change(wanted, because)
  }

  /** Asks for one worker more or fewer, until the algorithm decides otherwise. @returns false if that is not possible */
  nudge(by: 1 | -1, because: string): boolean {
    const { roster } = this.#pool
    const wanted = this.#allowed(roster.target + by)
    if (wanted === roster.target || roster.target === 0 || this.#isFrozen) return false
    if (by > 0 && !this.#mayGrow) return false
    if (this.#byHand !== undefined) this.#byHand = wanted
    this.#change(wanted, because)
    return true
  }

  /** Lets all workers go until there is something to do. */
  sleep(because: string): void {
    this.#byHand = undefined
    this.#change(0, because)
  }

  /** Tasks have ended. */
  ended(count: number): void {
    this.#view.ended(count)
  }

  close(): void {
    this.#idleAlarm.clear()
    this.#nextDecision.clear()
    this.#view.stopListening()
  }

  get #minimum(): number {
    return this.#options.scaling?.options.minimum ?? 1
  }

  #allowed(count: number): number {
    return Math.max(this.#minimum, Math.min(this.#options.processes, count))
  }

  #adopt({ scaling }: SizeOptions): void {
    if (this.#scaler?.algorithm !== scaling?.algorithm)
      this.#scaler = scaling === null ? undefined : this.#openScaler(scaling)
    this.#idleAlarm.clear()
  }

  #openScaler({ algorithm, options }: PoolScaling): Scaler {
    this.#say(algorithm.introduce?.(options) ?? [])
    return new Scaler(algorithm)
  }

  #wake(): void {
    const { scaling, processes } = this.#options
    if (scaling === null) this.#change(processes, 'there is something to do')
    else if (this.#minimum > 0) this.#change(this.#minimum, 'there is something to do')
    else this.#decide()
  }

  /** Decides at once, but at most every EAGER_PACE_MS: this is called thousands of times per second. */
  #decideSoon(): void {
    const at = this.#decidedAt + EAGER_PACE_MS
    if (at <= performance.now()) this.#decide()
    else this.#nextDecision.wakeAt(at)
  }

  #decide(): void {
    const { events, spool, roster, isHalted } = this.#pool
    const { scaling } = this.#options
    if (scaling === null || this.#scaler === undefined) return
    this.#nextDecision.clear()
    this.#decidedAt = performance.now()
    const canSpawn = this.#mayGrow && !isHalted
    const seen = this.#view.snapshot(scaling.options, this.#decidedAt, canSpawn)
    const { target, reason, lines = [], problem, askAgainMicros } = this.#scaler.decide(seen)
    if (problem !== undefined) events.emit('scaling-failed', { spool, error: problem })
    this.#say(lines)
    this.#change(target, reason)
    if (askAgainMicros !== undefined) this.#nextDecision.wakeAt(this.#decidedAt + askAgainMicros / 1000)
    roster.trim()
  }

  #say(lines: readonly string[]): void {
    for (const line of lines) this.#pool.events.emit('scaling-logged', { spool: this.#pool.spool, line })
  }

  #change(target: number, reason: string): void {
    const { roster, events, spool } = this.#pool
    this.#reason = reason
    const { target: before } = roster
    if (target === before) return
    roster.target = target
    const algorithm = this.#scaler?.algorithm.name ?? null
    events.emit('pool-scaled', { spool, algorithm, from: before, to: target, reason })
    if (target === 0) events.emit('spool-went-cheap', { spool })
    if (target > before) roster.fill()
    else roster.trim()
  }
}

/** How many workers a pool starts with. If none, one is spawned nevertheless, to show that the handlers load. */
function initialSize({ processes, scaling, startsCheap }: SizeOptions): number {
  if (startsCheap) return 0
  return scaling === null ? processes : scaling.initial
}

/** A pool as algorithms see it: its workers, what there is to do, and the tasks that have come and ended since the last decision. */
class PoolView {
  readonly #pool: PoolSizeContext
  readonly #openedAt = performance.now()
  /** The backlog that algorithms are told. It does not grow while workers sort tasks that may not be due. */
  #sorted = 0
  #finished = 0
  #claimableBefore = 0
  #runs = new Histogram()
  #waits = new Histogram()
  readonly stopListening: () => void

  constructor(pool: PoolSizeContext) {
    this.#pool = pool
    this.stopListening = pool.events.on('run-times', ({ spool, ran, waited }) => {
      if (spool !== pool.spool) return
      this.#runs.merge(ran)
      this.#waits.merge(waited)
    })
  }

  /** Tasks and signals that wait or run. */
  get load(): number {
    return this.#backlog + this.#running + this.#pool.beside.signals
  }

  /** Tasks that could run now, and were given to no worker. */
  get #backlog(): number {
    return this.#pool.feed.state.ready + this.#pool.beside.crashed
  }

  /** Tasks that workers have. */
  get #running(): number {
    return this.#pool.feed.state.busy - this.#pool.beside.alone
  }

  ended(count: number): void {
    this.#finished += count
  }

  /** @param nowMs of `performance.now()` */
  snapshot(options: ScalingOptions, nowMs: number, canSpawn: boolean): Snapshot {
    const { workers: all, target, delayed } = this.#pool.roster
    const workers = [...all].filter(({ state }) => state !== 'draining')
    const backlog = this.#backlog
    // an idle worker is about to look at what waits, or may not begin before the whole daemon is open
    const isSorting = workers.some(({ work, isIdle }) => work.activity.isSorting || (backlog > 0 && isIdle))
    this.#sorted = isSorting ? Math.min(this.#sorted, backlog) : backlog
    return {
      options,
      nowMicros: nowMs * 1000,
      openedMicros: this.#openedAt * 1000,
      workers: workers.map(worker => this.#seen(worker)),
      // the successor of a worker that recycles is still to come
      delayed: Math.max(delayed, target - workers.length),
      target,
      canSpawn,
      backlog: this.#sorted,
      running: this.#running,
      signals: this.#pool.beside.signals,
      ...this.#takeNews(isSorting),
    }
  }

  /** What has come and ended since the last call. @param isUnknown nobody knows yet how much of it is due: the next call tells */
  #takeNews(isUnknown: boolean): Pick<Snapshot, 'arrived' | 'finished' | 'runs' | 'waits'> {
    if (isUnknown) return { arrived: 0, finished: 0, runs: new Histogram(), waits: new Histogram() }
    const claimable = this.#backlog + this.#running
    const arrived = Math.max(0, claimable - this.#claimableBefore + this.#finished)
    const news = { arrived, finished: this.#finished, runs: this.#runs, waits: this.#waits }
    this.#finished = 0
    this.#claimableBefore = claimable
    this.#runs = new Histogram()
    this.#waits = new Histogram()
    return news
  }

  #seen(worker: WorkerProcess): ScaledWorker {
    const { roster } = this.#pool
    const { state, isOpen } = worker
    const { outstanding, concurrency, activity } = worker.work
    return {
      number: roster.numberOf(worker),
      isStarting: state === 'starting' || (outstanding === 0 && !isOpen),
      isBusy: outstanding >= concurrency && !activity.isSorting,
      busyMicros: roster.busyMsOf(worker) * 1000,
    }
  }
}
