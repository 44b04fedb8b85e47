import { availableParallelism } from 'node:os'
import { Alarm, epochMs } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { RespawnPace } from '../../base/respawn-pace.js'
import type { CancelNews, CancelResult } from '../../base/task/cancel.js'
import type { Ref, TaskName } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { Source } from '../../engines/feed.js'
import { AsideProcess, clearMarks, lookerOf } from './aside.js'
import { Cancellations } from './cancellations.js'
import { CrashedTasks } from './crashed-tasks.js'
import { LastRuns } from './cut-short.js'
import { Feeder } from './feeder.js'
import { Halt } from './halt.js'
import type { PoolContext, PoolOptions } from './pool-options.js'
import { PoolSize, type PoolSizeStats } from './pool-size.js'
import type { Roster, RosterOptions } from './roster.js'
import type { SignalReceivers, SignalRouter } from './signal-router.js'
import type { WorkerProcess } from './worker-process.js'

/** One processor is left for listing the spool. A worker without a processor would only delay the first ready one. */
const STARTED_AT_ONCE = Math.max(1, availableParallelism() - 1)

/** A process that runs tasks. */
export interface WorkerStats {
  /** 0: it has no process of its own. */
  readonly pid: number
  readonly state: WorkerProcess['state']
  /** It runs one task at a time, of those that must run alone. */
  readonly isLone: boolean
  /** How many tasks it runs at a time. */
  readonly concurrency: number
  /** Epoch ms. */
  readonly spawnedAtMs: number
  /** How many runs it has reported. */
  readonly ran: number
  /** How long it was busy with them. */
  readonly busyMs: number
  /** Milliseconds per task of late; null: none has run. */
  readonly paceMs: number | null
  /** How many tasks and signals it has: they run, or wait in it. */
  readonly outstanding: number
  /** The tasks that may have begun, and the latest time at which each can have; epoch ms. */
  readonly running: ReadonlyArray<{ readonly ref: Ref; readonly sinceMs: number }>
  /** The signals whose handlers run. */
  readonly signals: readonly number[]
}

/** The processes of a spool. */
export interface PoolStats {
  /** How many there should be, and how many are not draining. The lone worker counts in neither. */
  readonly wanted: number
  readonly present: number
  /** How many are spawned later, because others failed. */
  readonly delayed: number
  readonly size: PoolSizeStats
  readonly workers: readonly WorkerStats[]
}

/** A reload whose first worker is ready. Call exactly one of `commit` and `abandon`. */
export interface Replacement {
  /** Applies it: replaces the other workers one by one. */
  commit(): Promise<void>
  abandon(): void
}

/**
 * The worker processes of one spool: as many as its size says, each replaced when it dies. There is one more while there
 * are tasks that have to run alone.
 *
 * States: starting (no task is given out) → open → stopping (workers drain, and none is replaced).
 */
export class WorkerPool implements SignalReceivers {
  readonly #feed: Source
  readonly #events: Emitter
  readonly #signals: SignalRouter
  #options: PoolOptions
  readonly #main: Feeder
  readonly #alone: Alone
  readonly size: PoolSize
  readonly halt: Halt
  readonly #pace = new RespawnPace()
  #hasBegun = false
  readonly #crashed: CrashedTasks
  readonly #lastRuns = new LastRuns()
  readonly #cancellations: Cancellations
  readonly #aside: AsideProcess | undefined
  #unmarking = Promise.resolve()

  constructor(options: PoolOptions, feed: Source, events: Emitter, signals: SignalRouter) {
    this.#options = options
    this.#feed = feed
    this.#events = events
    this.#signals = signals
    signals.join(this)
    // what is only passed on is due whatever its time: whoever looked would find it to be for later
    const isPassedOn = options.worker.chain.some(({ kind }) => kind === 'forward')
    const openAside = isPassedOn ? undefined : options.openAside
    this.#aside = openAside && new AsideProcess(() => this.#options.openAside?.() ?? openAside())
    const looker = this.#aside && lookerOf(this.#aside.ask, this.spool)
    if (looker !== undefined) feed.lookBy?.(looker)
    const context: PoolContext = {
      ...{ spool: this.spool, feed, events, lastRuns: this.#lastRuns, looker },
      workers: () => this.#feeders.flatMap(({ roster }) => [...roster.workers]),
      isHalted: () => this.isHalted,
      tell: (pid, reports, known) => this.#tell(pid, reports, known),
      dispatch: () => this.dispatch(),
    }
    this.halt = new Halt(context, () => {
      for (const feeder of this.#feeders) feeder.takeBack()
    })
    this.#cancellations = new Cancellations(context, () => this.#options)
    this.#crashed = new CrashedTasks(feed, () => this.dispatch())
    const shared = {
      ...context,
      ...{
        signals,
        halt: this.halt,
        pace: this.#pace,
        cancellations: this.#cancellations,
        crashed: this.#crashed,
      },
      isSequential: () => this.#isSequential,
      joined: (worker: WorkerProcess) => this.#joined(worker),
      vacant: () => {
        this.#main.roster.fill()
        this.dispatch()
      },
      progressed: (count: number) => this.#progressed(count),
    }
    this.#main = new Feeder(options, { ...shared, isAlone: false })
    this.#alone = new Alone(aloneOptions(options), { ...shared, isAlone: true })
    this.size = new PoolSize(options, {
      ...context,
      roster: this.#main.roster,
      beside: () => ({
        ...{ alone: this.#alone.busy, signals: signals.loadOf(this) },
        crashed: this.#isSequential && this.#crashed.isReady ? 1 : 0,
      }),
    })
  }

  /** Its workers run one task at a time. */
  get #isSequential(): boolean {
    const { concurrency, sharesProcess } = this.#options.worker
    return concurrency === 1 && sharesProcess !== true
  }

  #joined(worker: WorkerProcess): void {
    this.halt.joined(worker)
    this.dispatch()
  }

  #tell(pid: number, reports: readonly Report[], known: ReadonlySet<TaskName> = new Set()): void {
    const { spool } = this
    if (reports.length > 0) this.#events.emit('tasks-reported', { spool, pid, done: [], reports, known })
  }

  get spool(): string {
    return this.#options.worker.spool
  }

  get workers(): ReadonlySet<WorkerProcess> {
    return this.#main.roster.workers
  }

  /** @see Roster.numberOf */
  numberOf(worker: WorkerProcess): number {
    return this.#main.roster.numberOf(worker)
  }

  /** The tasks that may have begun, also those that run alone. */
  get running(): TaskName[] {
    return this.#feeders.flatMap(({ roster }) => [...roster.workers].flatMap(({ work }) => work.running))
  }

  get #feeders(): Feeder[] {
    return [this.#main, this.#alone]
  }

  get options(): PoolOptions {
    return this.#options
  }

  get stats(): PoolStats {
    const [main, lone] = [this.#main.roster, this.#alone.roster]
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

  /** For how long the worker that has been idle longest has been so, in milliseconds; undefined: none is idle. */
  get idleMs(): number | undefined {
    const now = performance.now()
    const idle = [...this.workers].filter(({ isIdle }) => isIdle)
    return idle.length === 0 ? undefined : Math.max(...idle.map(({ work }) => now - work.activity.idleSince))
  }

  /** Since when the task that has been due for longest has been due, epoch ms; null: none is due. */
  get oldestDueMs(): number | null {
    const { oldestDueMs, unseenSinceMs } = this.#feed.stats()
    return oldestDueMs ?? unseenSinceMs
  }

  /** Replaces a worker, which finishes what it runs first. */
  recycle(worker: WorkerProcess): void {
    void this.#main.roster.dismiss(worker)
    this.#main.roster.fill()
  }

  /**
   * Spawns the first workers, as many as have a processor; resolves when one is ready.
   *
   * @throws SpooldError HANDLER_UNLOADABLE with the message of the worker
   */
  async start(): Promise<void> {
    const { roster } = this.#main
    const length = Math.max(1, Math.min(roster.target, STARTED_AT_ONCE))
    const first = Array.from({ length }, () => roster.spawnAside())
    for (const worker of first) roster.takeIn(worker)
    const begun = first.map(async worker => {
      const ready = await roster.ready(worker)
      if (ready === worker) return
      roster.takeIn(ready)
      roster.trim() // the roster has replaced the first one, too
    })
    await Promise.race(begun)
  }

  /** For how long tasks could be given out and are not, in milliseconds. */
  get stalledMs(): number {
    return Math.max(...this.#feeders.map(({ stalledMs }) => stalledMs))
  }

  /** Spawns the remaining workers: the spool is listed by now, which leaves them a processor. */
  complete(): void {
    this.#main.roster.fill()
  }

  /** From now on the workers are given due tasks. */
  begin(): void {
    this.#hasBegun = true
    this.dispatch()
  }

  /** Nothing is to be started: the spool is paused, or the daemon is quiet. */
  get isHalted(): boolean {
    return this.halt.isOn
  }

  /** Ends a task that one of its workers runs or has claimed. @param tell hears what it waits for */
  cancel(name: TaskName, tell: (news: CancelNews) => void): Promise<CancelResult> {
    return this.#cancellations.cancel(name, tell)
  }

  /** Gives ready tasks to workers with room. Call it when there may be new tasks or new room. */
  dispatch(): void {
    if (!this.#hasBegun || this.#main.roster.isClosed || this.isHalted) return
    this.size.letGo()
    this.#main.dispatch()
    this.#alone.look()
    this.size.look() // at what nobody had room for
  }

  /**
   * Spawns the first worker with new options; it is given no task yet. If it cannot start, nothing has changed. The size of
   * the pool is frozen until the end.
   *
   * @throws SpooldError HANDLER_UNLOADABLE
   */
  async prepare(options: PoolOptions): Promise<Replacement> {
    const { roster } = this.#main
    const thaw = () => this.size.freeze(false)
    this.size.freeze(true)
    try {
      const first = await roster.ready(roster.spawnAside(options), options)
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

  /** An old worker stays until a new one is ready in its place. */
  async #replaceAll(first: WorkerProcess, options: PoolOptions): Promise<void> {
    const { roster } = this.#main
    const old = [...roster.workers]
    this.#adopt(options)
    roster.takeIn(first)
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
        this.#events.emit('workers-kept', { spool: this.spool, kept, error: messageOf(error) })
    }
    roster.fill()
    void Promise.all(old.map(({ whenExited }) => whenExited)).then(() => {
      if (!roster.isClosed) this.#feed.changed('handlers') // their last reports may be of names that only the new ones know
    })
  }

  #adopt(options: PoolOptions): void {
    this.#options = options
    this.#main.roster.options = options
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

  /** Ends the workers. Being ended from outside does not count as a crash of a task. */
  async #end(end: (roster: Roster) => Promise<void>): Promise<void> {
    this.#signals.leave(this)
    this.size.close()
    this.#crashed.close()
    await Promise.all(
      this.#feeders.map(async feeder => {
        await end(feeder.roster)
        await feeder.close()
      }),
    )
    this.#aside?.close()
    await this.#cancellations.settled()
    await this.#unmark()
  }

  /** Resolves when it is done with all that was cut short: kills may follow a stop, any number of them. */
  #unmark(): Promise<void> {
    this.#unmarking = this.#unmarking.then(() => this.#unmarkRest())
    return this.#unmarking
  }

  /** Clears the marks of what they ran. What runs at most once is buried by that. */
  async #unmarkRest(): Promise<void> {
    // by now it is known whether another process, which got a task later, has died with it, of its own doing
    const excused = this.#lastRuns.excused(this.#feeders.flatMap(({ cutAtEnd }) => cutAtEnd.splice(0)))
    for (const report of await clearMarks(this.#options, excused, this.#events)) {
      const its = excused.find(({ ref }) => ref === report.ref)
      const isBuried = report.kind === 'buried' || report.kind === 'set-aside'
      if (its !== undefined && isBuried) this.#tell(its.pid, [report])
    }
  }

  #progressed(count: number): void {
    this.size.ended(count)
    if (!this.#pace.progressed()) return
    for (const { roster } of this.#feeders) roster.hasten()
  }
}

/** It has ended, or is about to, and another one comes in its place. */
function isReplaced({ state }: WorkerProcess): boolean {
  return state === 'draining' || state === 'exited'
}

function workerStats(worker: WorkerProcess, isLone: boolean): WorkerStats {
  const { pid, state, spawnedAt, work } = worker
  const { concurrency, pace, outstanding, tasks, signals } = work
  return {
    pid,
    state,
    isLone,
    concurrency,
    spawnedAtMs: epochMs(spawnedAt),
    ran: pace.ran,
    busyMs: pace.busyMs,
    paceMs: pace.ms ?? null,
    outstanding,
    running: tasks.begun.map(({ name, startedAt }) => ({ ref: name, sinceMs: epochMs(startedAt) })),
    signals: signals.running,
  }
}

/** How long it is kept without such tasks. */
const IDLE_MS = 1000

/** One worker that runs one task at a time, while there are tasks that have to run alone. */
class Alone extends Feeder {
  readonly #idleAlarm = new Alarm(() => this.dismiss())

  /** How many tasks it has. */
  get busy(): number {
    let busy = 0
    for (const { work } of this.roster.workers) busy += work.outstanding
    return busy
  }

  /** As `dispatch`, with a worker if one is wanted. */
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

  /** It finishes what it runs. */
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

/** The options of the worker that runs what must run alone. */
function aloneOptions(options: PoolOptions): RosterOptions {
  return { ...options, worker: { ...options.worker, concurrency: 1, sharesProcess: false } }
}
