import { availableParallelism } from 'node:os'
import { RespawnPace } from '../base/respawn-pace.js'
import type { Feed } from '../engines/feed.js'
import type { Emitter } from '../events/emitter.js'
import type { CancelNews, CancelResult } from '../task/cancel.js'
import type { Pauses } from '../task/pause.js'
import type { TaskName } from '../task/ref.js'
import { Brake } from './brake.js'
import { Cancellations } from './cancellations.js'
import { clearMarks } from './clear-marks.js'
import type { NamedRef } from './given-tasks.js'
import { Group } from './group.js'
import { IdleTimer } from './idle-timer.js'
import { aloneLane, dueLane } from './lane.js'
import { aloneOptions, type PoolOptions } from './pool-options.js'
import { type PoolStats, poolStats } from './pool-stats.js'
import type { SignalReceivers, SignalRouter } from './signal-router.js'
import type { WorkerProcess } from './worker-process.js'

/** A reload whose first worker is ready. Call exactly one of `commit` and `abandon`. */
export interface Replacement {
  /** Applies it: replaces the other workers one by one. */
  commit(): Promise<void>
  abandon(): void
}

/** One processor is left for listing the spool. A worker without a processor would only delay the first ready one. */
const STARTED_AT_ONCE = Math.max(1, availableParallelism() - 1)

// Longer than others: both groups of workers start, are fed and end in one place.
/**
 * The worker processes of one spool: as many as configured, each replaced when it dies. There is one more while there
 * are tasks that have to run alone.
 *
 * States: starting (no task is given out) → open → stopping (workers drain, and none is replaced).
 */
export class WorkerPool implements SignalReceivers {
  readonly #feed: Feed
  readonly #events: Emitter
  readonly #signals: SignalRouter
  #options: PoolOptions
  readonly #main: Group
  /** One worker that runs one task at a time, while there are tasks that have to run alone. */
  readonly #lone: Group
  readonly #pace = new RespawnPace()
  readonly #idleTimer = new IdleTimer(() => this.#goCheap())
  readonly #loneIdleTimer = new IdleTimer(() => this.#dismissLone())
  #hasBegun = false
  readonly #unfollow: () => void
  readonly #brake: Brake
  readonly #cancellations: Cancellations

  constructor(options: PoolOptions, feed: Feed, events: Emitter, signals: SignalRouter) {
    this.#options = options
    this.#feed = feed
    this.#events = events
    this.#signals = signals
    signals.join(this)
    this.#unfollow = events.followListeners('run-times', isHeard => this.#tellTimes(isHeard))
    const all = {
      ...{ feed, events },
      workers: () => [...this.#main.roster.workers, ...this.#lone.roster.workers],
      released: () => this.dispatch(),
    }
    this.#brake = new Brake({ ...all, spool: this.spool })
    this.#cancellations = new Cancellations({ ...all, options: () => this.#options })
    const shared = {
      feed,
      events,
      signals,
      pace: this.#pace,
      cancellations: this.#cancellations,
      isBraked: () => this.isBraked,
      dispatch: () => this.dispatch(),
      vacant: () => {
        this.#fill()
        this.dispatch()
      },
      progressed: () => this.#progressed(),
    }
    this.#main = new Group(options, {
      ...shared,
      lane: dueLane(feed),
      joined: worker => {
        signals.declared(worker, worker.start.news)
        this.#joined(worker)
      },
    })
    this.#lone = new Group(aloneOptions(options), {
      ...shared,
      lane: aloneLane(feed),
      joined: worker => this.#joined(worker),
    })
  }

  #joined(worker: WorkerProcess): void {
    if (!this.#events.isSilent('run-times')) worker.tellTimes(true)
    this.#brake.joined(worker)
    this.dispatch()
  }

  /** Call it when the first listener has come or the last one has gone. */
  #tellTimes(isHeard: boolean): void {
    for (const { roster } of [this.#main, this.#lone])
      for (const worker of roster.workers) if (worker.state === 'ready') worker.tellTimes(isHeard)
  }

  get spool(): string {
    return this.#options.worker.spool
  }

  get workers(): ReadonlySet<WorkerProcess> {
    return this.#main.roster.workers
  }

  get stats(): PoolStats {
    return poolStats(this.#main.roster, this.#lone.roster)
  }

  /**
   * Spawns the first workers, as many as have a processor; resolves when one is ready.
   *
   * @throws SpooldError HANDLER_UNLOADABLE with the message of the worker
   */
  async start(): Promise<void> {
    const { processes, cheap } = this.#options
    const { roster } = this.#main
    const first = Array.from({ length: cheap ? 1 : Math.min(processes, STARTED_AT_ONCE) }, () =>
      roster.spawnAside(),
    )
    for (const worker of first) roster.takeIn(worker)
    await Promise.race(first.map(({ start }) => start.whenReady))
  }

  /** For how long tasks could be given out and are not, in milliseconds. */
  get stalledMs(): number {
    return Math.max(this.#main.feeder.stalledMs, this.#lone.feeder.stalledMs)
  }

  /** Spawns the remaining workers: the spool is listed by now, which leaves them a processor. */
  complete(): void {
    if (!this.#options.cheap) this.#fill()
  }

  /** From now on the workers are given due tasks. */
  begin(): void {
    this.#hasBegun = true
    this.dispatch()
  }

  /** Nothing is to be started: the spool is paused, or the daemon is quiet. */
  get isBraked(): boolean {
    return this.#brake.isOn
  }

  /** The whole spool is paused. */
  get isPaused(): boolean {
    return this.#brake.isPaused
  }

  /** Ends a task that one of its workers runs or has claimed. @param tell hears what it waits for */
  cancel(name: TaskName, tell: (news: CancelNews) => void): Promise<CancelResult> {
    return this.#cancellations.cancel(name, tell)
  }

  setPauses(pauses: Pauses): void {
    this.#brake.setPauses(pauses)
  }

  setQuiet(isQuiet: boolean): void {
    this.#brake.setQuiet(isQuiet)
  }

  /** Gives ready tasks to workers with room. Call it when there may be new tasks or new room. */
  dispatch(): void {
    if (!this.#hasBegun || this.#main.roster.isClosed || this.isBraked) return
    if (this.#options.cheap) this.#fill()
    this.#main.feeder.dispatch()
    if (this.#options.cheap) this.#idleTimer.look(this.#load === 0 && this.workers.size > 0)
    this.#runAlone()
  }

  /**
   * Spawns the first worker with new options; it is given no task yet. If it cannot start, nothing has changed.
   *
   * @throws SpooldError HANDLER_UNLOADABLE
   */
  async prepare(options: PoolOptions): Promise<Replacement> {
    const { roster } = this.#main
    const first = roster.spawnAside(options)
    await first.start.whenReady
    return { commit: () => this.#replace(first, options), abandon: () => void roster.dismiss(first) }
  }

  async #replace(first: WorkerProcess, options: PoolOptions): Promise<void> {
    const { roster } = this.#main
    const old = [...this.workers]
    this.#options = options
    roster.options = options
    this.#lone.roster.options = aloneOptions(options)
    roster.takeIn(first)
    this.#dismissLone()
    for (const worker of old) {
      if (roster.isClosed) return
      void roster.stop(worker)
      await Promise.allSettled(this.#fill().map(({ start }) => start.whenReady))
    }
    this.#fill()
  }

  /** Lets the workers finish what they run, and kills those that take too long. */
  async stop(): Promise<void> {
    await this.#end(roster => roster.stopAll())
  }

  /** Kills all workers now. The tasks that were running will run again. */
  async kill(): Promise<void> {
    await this.#end(roster => roster.killAll())
  }

  /** Ends the workers. Being ended from outside does not count as a crash of a task. */
  async #end(end: (roster: Group['roster']) => Promise<readonly NamedRef[]>): Promise<void> {
    this.#signals.leave(this)
    this.#unfollow()
    this.#idleTimer.clear()
    this.#loneIdleTimer.clear()
    const groups = [this.#main, this.#lone]
    const left = await Promise.all(
      groups.map(async ({ roster, feeder }) => {
        const tasks = await end(roster)
        feeder.close()
        return tasks
      }),
    )
    await this.#cancellations.settled()
    await clearMarks(this.#options, left.flat(), this.#events)
  }

  #fill(): WorkerProcess[] {
    const { roster } = this.#main
    roster.target = this.#wanted
    return roster.fill()
  }

  /** In cheap mode, only as many as there is work for; once idle, all are dismissed. */
  get #wanted(): number {
    const { cheap, processes } = this.#options
    return cheap ? Math.max(this.#main.roster.present, Math.min(processes, this.#load)) : processes
  }

  #runAlone(): void {
    const { roster, feeder } = this.#lone
    const isWanted = this.#feed.parkedFor('alone') > 0
    if (isWanted) {
      roster.target = 1
      roster.fill()
    } else if (roster.workers.size === 0) return
    feeder.dispatch()
    this.#loneIdleTimer.look(!isWanted && this.#loneBusy === 0)
  }

  get #loneBusy(): number {
    let busy = 0
    for (const { outstanding } of this.#lone.roster.workers) busy += outstanding
    return busy
  }

  #dismissLone(): void {
    this.#lone.roster.target = 0
    this.#lone.roster.trim()
  }

  #progressed(): void {
    if (!this.#pace.progressed()) return
    this.#main.roster.hasten()
    this.#lone.roster.hasten()
  }

  /** How many tasks and signals wait or run. */
  get #load(): number {
    const { ready, busy } = this.#feed.counts()
    return ready + busy - this.#loneBusy + this.#signals.loadOf(this)
  }

  #goCheap(): void {
    this.#events.emit('spool-went-cheap', { spool: this.spool })
    this.#main.roster.target = 0
    this.#main.roster.trim()
  }
}
