import { availableParallelism } from 'node:os'
import { Alarm, epochMs } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { RespawnPace } from '../../base/respawn-pace.js'
import type { CancelNews, CancelResult } from '../../base/task/cancel.js'
import type { TaskName } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { SignalNews } from '../../base/task/schedule.js'
import type { Source } from '../../engines/feed.js'
import { AsideProcess, lookerOf } from './aside.js'
import { Cancellations } from './cancellations.js'
import { CrashedTasks } from './crashed-tasks.js'
import { LastRuns } from './cut-short.js'
import { Feeder, type FeederContext } from './feeder.js'
import { Halt } from './halt.js'
import type { PoolOptions } from './pool-options.js'
import { PoolSize, type PoolSizeContext } from './pool-size.js'
import type { Roster, RosterOptions } from './roster.js'
import type { SignalReceivers, SignalRouter } from './signal-router.js'
import type { WorkerProcess } from './worker-process.js'

/** One processor is left for listing the spool. A worker beyond that would only delay the first one. */
const STARTED_AT_ONCE = Math.max(1, availableParallelism() - 1)

/**
 * What the handlers have declared while they were loaded, by all that they were loaded with: for spools without a process,
 * they are loaded once, because all of these would declare the same.
 */
export type Declared = Map<string, Promise<readonly SignalNews[]>>

/** A reload whose first worker is ready. Call exactly one of `commit` and `abandon`. */
export interface Replacement {
  /** Applies the new options: replaces the other workers one by one. */
  commit(): Promise<void>
  abandon(): void
}

/**
 * The worker processes of one spool: as many as its size says, each replaced when it dies. While there are tasks that must run
 * alone, there is one more.
 *
 * States: starting (no task is given out) → open → stopping (workers drain, and none is replaced).
 */
export class WorkerPool implements SignalReceivers, FeederContext, PoolSizeContext {
  readonly feed: Source
  readonly events: Emitter
  readonly signals: SignalRouter
  #options: PoolOptions
  readonly #main: Feeder
  readonly #alone: Alone
  readonly size: PoolSize
  readonly halt = new Halt(this)
  readonly pace = new RespawnPace()
  #hasBegun = false
  readonly crashed: CrashedTasks
  readonly lastRuns = new LastRuns()
  readonly cancellations = new Cancellations(this)
  readonly aside = new AsideProcess(() => (this.#options.openAside ?? this.#options.openPort)())

  constructor(options: PoolOptions, feed: Source, events: Emitter, signals: SignalRouter) {
    this.#options = options
    this.feed = feed
    this.events = events
    this.signals = signals
    signals.join(this)
    // tasks that are only passed on are due whatever their time, but a look aside would find them to be for later
    const isPassedOn = options.worker.chain.some(({ kind }) => kind === 'forward')
    if (!isPassedOn && options.openAside !== undefined) feed.lookBy?.(lookerOf(this.aside.ask, this.spool))
    this.crashed = new CrashedTasks(feed, () => this.dispatch())
    this.#main = new Feeder(options, this)
    this.#alone = new Alone(aloneOptions(options), this, true)
    this.size = new PoolSize(options, this)
  }

  /** True if the workers run one task at a time. */
  get isSequential(): boolean {
    const { concurrency, sharesProcess } = this.#options.worker
    return concurrency === 1 && sharesProcess !== true
  }

  joined(worker: WorkerProcess): void {
    this.halt.joined(worker)
    this.dispatch()
  }

  vacant(): void {
    this.roster.fill()
    this.dispatch()
  }

  tell(pid: number, reports: readonly Report[], known: ReadonlySet<TaskName> = new Set()): void {
    const { spool } = this
    if (reports.length > 0) this.events.emit('tasks-reported', { spool, pid, done: [], reports, known })
  }

  get spool(): string {
    return this.#options.worker.spool
  }

  /** The roster of the workers that run all due tasks except those that must run alone. */
  get roster(): Roster {
    return this.#main.roster
  }

  get workers(): ReadonlySet<WorkerProcess> {
    return this.roster.workers
  }

  get allWorkers(): WorkerProcess[] {
    return this.#feeders.flatMap(({ roster }) => [...roster.workers])
  }

  get beside() {
    return {
      ...{ alone: this.#alone.busy, signals: this.signals.loadOf(this) },
      crashed: this.isSequential && this.crashed.isReady ? 1 : 0,
    }
  }

  /** The tasks that run, including those that run alone. */
  get running(): TaskName[] {
    return this.allWorkers.flatMap(({ work }) => work.running)
  }

  get #feeders(): Feeder[] {
    return [this.#main, this.#alone]
  }

  get options(): PoolOptions {
    return this.#options
  }

  /** For people and monitoring; runtime/stats/snapshot.ts says what each figure means. */
  get stats() {
    const [main, lone] = [this.roster, this.#alone.roster]
    return {
      size: this.size.stats,
      wanted: this.size.wanted,
      present: main.present,
      delayed: main.delayed + lone.delayed,
      workers: [
        ...Array.from(main.workers, worker => workerStats(worker, false)),
        ...Array.from(lone.workers, worker => workerStats(worker, true)),
      ],
    }
  }

  /** How long the longest-idle worker has been idle, in milliseconds; undefined: none is idle. */
  get idleMs(): number | undefined {
    const now = performance.now()
    const idle = [...this.workers].filter(({ isIdle }) => isIdle)
    return idle.length === 0 ? undefined : Math.max(...idle.map(({ work }) => now - work.activity.idleSince))
  }

  /** Since when the oldest due task has been due, epoch ms; null: none is due. */
  get oldestDueMs(): number | null {
    const { oldestDueMs, unseenSinceMs } = this.feed.stats()
    return oldestDueMs ?? unseenSinceMs
  }

  /** Replaces a worker, which first finishes what it runs. */
  recycle(worker: WorkerProcess): void {
    void this.roster.dismiss(worker)
    this.roster.fill()
  }

  /**
   * Spawns as many first workers as have a processor. Resolves when one is ready; a pool that may be
   * empty spawns one only if its handlers are loaded nowhere else.
   *
   * @throws SpooldError HANDLER_UNLOADABLE with the message of the worker
   */
  async start(declared: Declared = new Map()): Promise<void> {
    const { roster } = this
    const loaded = loadedBy(this.#options)
    const known = this.size.mayBeEmpty ? declared.get(loaded) : undefined
    if (known !== undefined) {
      roster.target = 0
      return this.signals.declared(this.spool, await known)
    }
    const length = Math.max(1, Math.min(roster.target, STARTED_AT_ONCE))
    const first = Array.from({ length }, () => roster.spawnAside())
    for (const worker of first) roster.takeIn(worker)
    const begun = first.map(async worker => {
      const ready = await roster.ready(worker)
      if (ready !== worker) {
        roster.takeIn(ready)
        roster.trim() // the roster has replaced the first one, too
      }
      return ready.news
    })
    const news = Promise.race(begun)
    declared.set(loaded, news)
    await news
  }

  /** For how long tasks could have been given out and were not, in milliseconds. */
  get stalledMs(): number {
    return Math.max(...this.#feeders.map(({ stalledMs }) => stalledMs))
  }

  /** Spawns the remaining workers. Call it when the spool is listed: then they have a processor. */
  complete(): void {
    this.roster.fill()
  }

  /** From now on the workers are given due tasks. */
  begin(): void {
    this.#hasBegun = true
    this.dispatch()
  }

  /** True if nothing may be started: the spool is paused, or the daemon is quiet. */
  get isHalted(): boolean {
    return this.halt.isOn
  }

  takeBack(): void {
    for (const feeder of this.#feeders) feeder.takeBack()
  }

  /** Ends a task that one of the workers runs or has claimed. @param tell hears what the cancellation waits for */
  cancel(name: TaskName, tell: (news: CancelNews) => void): Promise<CancelResult> {
    return this.cancellations.cancel(name, tell)
  }

  /** Gives ready tasks to workers with room. Call it when there may be new tasks or new room. */
  dispatch(): void {
    if (!this.#hasBegun || this.roster.isClosed || this.isHalted) return
    this.size.letGo()
    this.#main.dispatch()
    this.#alone.look()
    this.size.look() // at the tasks for which no worker had room
  }

  /**
   * Spawns the first worker with new options, as far as `start` would, and gives it no task yet. If the worker cannot start, nothing
   * has changed. The size of the pool is frozen until `commit` or `abandon` has ended.
   *
   * @throws SpooldError HANDLER_UNLOADABLE
   */
  async prepare(options: PoolOptions, declared: Declared = new Map()): Promise<Replacement> {
    const { roster } = this
    const thaw = () => this.size.freeze(false)
    this.size.freeze(true)
    try {
      const loaded = loadedBy(options)
      const known = roster.target === 0 ? await declared.get(loaded) : undefined
      if (known !== undefined)
        return {
          commit: () => {
            this.signals.declared(this.spool, known)
            return this.#replaceAll(undefined, options).finally(thaw)
          },
          abandon: thaw,
        }
      const first = await roster.ready(roster.spawnAside(options), options)
      declared.set(loaded, Promise.resolve(first.news))
      return {
        commit: () => this.#replaceAll(first, options).finally(thaw),
        abandon: () => {
          thaw()
          void roster.dismiss(first)
        },
      }
    } catch (error) {
      thaw()
      throw error
    }
  }

  /** Replaces the old workers one by one. Each stays until its successor is ready. */
  async #replaceAll(first: WorkerProcess | undefined, options: PoolOptions): Promise<void> {
    const { roster } = this
    const old = [...roster.workers]
    this.#adopt(options)
    if (first !== undefined) roster.takeIn(first)
    try {
      for (const worker of old) {
        if (roster.isClosed) return
        if (isReplaced(worker)) continue
        if (roster.excess <= 0) {
          roster.takeIn(await roster.ready(roster.spawnAside()))
        }
        if (!roster.isClosed && !isReplaced(worker)) void roster.stop(worker)
      }
    } catch (error) {
      const kept = old.filter(({ state }) => state === 'ready').length
      if (!roster.isClosed)
        this.events.emit('workers-kept', { spool: this.spool, kept, error: messageOf(error) })
    }
    roster.fill()
    void Promise.all(old.map(({ whenExited }) => whenExited)).then(() => {
      if (!roster.isClosed) this.feed.changed('handlers') // the last reports of old workers may name tasks that only new workers know
    })
  }

  #adopt(options: PoolOptions): void {
    this.#options = options
    this.roster.options = options
    this.#alone.roster.options = aloneOptions(options)
    this.size.options = options
    this.#alone.dismiss()
  }

  /** Lets the workers finish what they run, and kills those that take too long. */
  async stop(mercyMs?: number): Promise<void> {
    await this.#end(roster => roster.stopAll(mercyMs))
  }

  /** Kills all workers now. The tasks that were running will run again. */
  async kill(): Promise<void> {
    await this.#end(roster => roster.killAll())
  }

  /** Ends the workers. That counts as a crash for no task. */
  async #end(end: (roster: Roster) => Promise<void>): Promise<void> {
    this.signals.leave(this)
    this.size.close()
    this.crashed.close()
    await Promise.all(
      this.#feeders.map(async feeder => {
        await end(feeder.roster)
        await feeder.close()
      }),
    )
    await this.cancellations.settled()
    this.aside.close()
    await this.feed.leases?.settled?.()
  }

  progressed(count: number): void {
    this.size.ended(count)
    if (!this.pace.progressed()) return
    for (const { roster } of this.#feeders) roster.hasten()
  }
}

/** All that handlers are loaded with, except the spool, because uWSGI loads them once for all, and what names all spools. */
function loadedBy({ worker }: PoolOptions): string {
  return JSON.stringify({ ...worker, spool: '', targets: [], hostSettings: [] })
}

/** True if the worker has ended or is about to, so that another one comes in its place. */
function isReplaced({ state }: WorkerProcess): boolean {
  return state === 'draining' || state === 'exited'
}

export type WorkerStats = ReturnType<typeof workerStats>

function workerStats(worker: WorkerProcess, isLone: boolean) {
  const { pid, state, spawnedAt, work } = worker
  const { concurrency, pace, activity, outstanding, tasks, signals } = work
  return {
    pid,
    state,
    isLone,
    concurrency,
    spawnedAtMs: epochMs(spawnedAt),
    ran: pace.ran,
    busyMs: activity.busyMs,
    paceMs: pace.ms ?? null,
    outstanding,
    running: tasks.running.map(({ name, beganAt }) => ({ ref: name, sinceMs: epochMs(beganAt) })),
    signals: signals.running,
  }
}

/** How long the lone worker is kept while no task must run alone. */
const IDLE_MS = 1000

/** The lone worker: it exists while there are tasks that must run alone, and runs them one at a time. */
class Alone extends Feeder {
  readonly #idleAlarm = new Alarm(() => this.dismiss())

  /** The number of tasks that the lone worker has. */
  get busy(): number {
    let busy = 0
    for (const { work } of this.roster.workers) busy += work.outstanding
    return busy
  }

  /** As `dispatch`, and spawns the worker if there are tasks for it. */
  look(): void {
    const { roster, ready, crashed } = this
    const isWanted = ready > 0 || crashed?.isReady === true
    if (isWanted) {
      roster.target = 1
      roster.fill()
    } else if (roster.workers.size === 0) return
    this.dispatch()
    if (!isWanted && this.busy === 0) this.#idleAlarm.wakeAt(performance.now() + IDLE_MS)
    else this.#idleAlarm.clear()
  }

  /** Lets the worker finish what it runs and end. */
  dismiss(): void {
    const { roster } = this
    roster.target = 0
    for (const worker of roster.workers) if (worker.state !== 'draining') void roster.dismiss(worker)
  }

  override async close(): Promise<void> {
    this.#idleAlarm.clear()
    await super.close()
  }
}

/** The options of the lone worker. */
function aloneOptions(options: PoolOptions): RosterOptions {
  return { ...options, worker: { ...options.worker, concurrency: 1, sharesProcess: false } }
}
