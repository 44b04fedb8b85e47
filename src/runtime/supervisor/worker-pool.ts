import { availableParallelism } from 'node:os'
import { IdleTimer } from '../../base/clock.js'
import type { Emitter } from '../../base/events/emitter.js'
import { RespawnPace } from '../../base/respawn-pace.js'
import type { CancelNews, CancelResult } from '../../base/task/cancel.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Pauses } from '../../base/task/pause.js'
import type { TaskName } from '../../base/task/ref.js'
import type { Source } from '../../engines/feed.js'
import { AsideProcess, clearMarks, lookerOf } from './aside.js'
import { Cancellations } from './cancellations.js'
import type { NamedRef } from './given-tasks.js'
import { Group, type GroupContext } from './group.js'
import { Halt } from './halt.js'
import { LastRuns } from './last-runs.js'
import { Load } from './load.js'
import { aloneOptions, type PoolOptions } from './pool-options.js'
import { PoolSize } from './pool-size.js'
import { type PoolStats, poolStats } from './pool-stats.js'
import { prepareReplacement, type Replacement } from './replacement.js'
import type { SignalReceivers, SignalRouter } from './signal-router.js'
import { aloneSupply, CrashedTasks, dueSupply, type Supply } from './supply.js'
import { Withdrawals } from './withdrawals.js'
import type { WorkerProcess } from './worker-process.js'

/** One processor is left for listing the spool. A worker without a processor would only delay the first ready one. */
const STARTED_AT_ONCE = Math.max(1, availableParallelism() - 1)

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
  readonly #main: Group
  readonly #alone: Alone
  readonly #load: Load
  readonly size: PoolSize
  readonly #pace = new RespawnPace()
  #hasBegun = false
  readonly #unfollow: () => void
  readonly #halt: Halt
  readonly #crashed: CrashedTasks
  readonly #lastRuns = new LastRuns()
  readonly #cancellations: Cancellations
  readonly #aside: AsideProcess | undefined

  constructor(options: PoolOptions, feed: Source, events: Emitter, signals: SignalRouter) {
    this.#options = options
    this.#feed = feed
    this.#events = events
    this.#signals = signals
    signals.join(this)
    this.#unfollow = events.followListeners('run-times', isHeard => this.#tellTimes(isHeard))
    const lastRuns = this.#lastRuns
    const all = {
      ...{ feed, events, lastRuns },
      workers: () => this.#groups.flatMap(({ roster }) => [...roster.workers]),
      released: () => this.dispatch(),
    }
    // what is only passed on is due whatever its time: whoever looked would find it to be for later
    const isPassedOn = options.worker.chain.some(({ kind }) => kind === 'forward')
    const openAside = isPassedOn ? undefined : options.openAside
    this.#aside = openAside && new AsideProcess(() => this.#options.openAside?.() ?? openAside())
    const looker = this.#aside && lookerOf(this.#aside.ask, this.spool)
    if (looker !== undefined) feed.lookBy?.(looker)
    const withdrawals = new Withdrawals({ feed, looker })
    this.#halt = new Halt({ ...all, withdrawals, spool: this.spool })
    this.#cancellations = new Cancellations({ ...all, options: () => this.#options })
    this.#crashed = new CrashedTasks(feed, () => this.dispatch())
    const isSequential = () => this.#isSequential
    const shared = {
      feed,
      lastRuns,
      events,
      signals,
      pace: this.#pace,
      cancellations: this.#cancellations,
      withdrawals,
      looker,
      isHalted: () => this.isHalted,
      dispatch: () => this.dispatch(),
      vacant: () => {
        this.#main.roster.fill()
        this.dispatch()
      },
      progressed: (count: number) => this.#progressed(count),
    }
    this.#main = new Group(options, {
      ...shared,
      supply: dueSupply(feed, this.#crashed, isSequential),
      joined: worker => {
        signals.declared(worker, worker.start.news)
        this.#joined(worker)
      },
    })
    this.#alone = new Alone(options, {
      ...shared,
      supply: aloneSupply(feed, this.#crashed, isSequential),
      joined: worker => this.#joined(worker),
    })
    const beside = () => ({
      ...{ alone: this.#alone.busy, signals: signals.loadOf(this) },
      crashed: isSequential() && this.#crashed.isReady ? 1 : 0,
    })
    this.#load = new Load({ spool: this.spool, feed, events, beside })
    this.size = new PoolSize(options, {
      ...{ spool: this.spool, roster: this.#main.roster, load: this.#load, events },
      isHalted: () => this.isHalted,
    })
  }

  /** Its workers run one task at a time. */
  get #isSequential(): boolean {
    const { concurrency, sharesProcess } = this.#options.worker
    return concurrency === 1 && sharesProcess !== true
  }

  #joined(worker: WorkerProcess): void {
    if (!this.#events.isSilent('run-times')) worker.tellTimes(true)
    this.#halt.joined(worker)
    this.dispatch()
  }

  /** Call it when the first listener has come or the last one has gone. */
  #tellTimes(isHeard: boolean): void {
    for (const { roster } of this.#groups)
      for (const worker of roster.workers) if (worker.state === 'ready') worker.tellTimes(isHeard)
  }

  get spool(): string {
    return this.#options.worker.spool
  }

  get workers(): ReadonlySet<WorkerProcess> {
    return this.#main.roster.workers
  }

  get #groups(): Group[] {
    return [this.#main, this.#alone.group]
  }

  get options(): PoolOptions {
    return this.#options
  }

  get stats(): PoolStats {
    return poolStats(this.#main.roster, this.#alone.group.roster, this.size.stats)
  }

  /** For how long the worker that has been idle longest has been so, in milliseconds; undefined: none is idle. */
  get idleMs(): number | undefined {
    const now = performance.now()
    const idle = [...this.workers].filter(({ isOpen, work }) => isOpen && work.outstanding === 0)
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
    await Promise.race(first.map(({ start }) => start.whenReady))
  }

  /** For how long tasks could be given out and are not, in milliseconds. */
  get stalledMs(): number {
    return Math.max(...this.#groups.map(({ feeder }) => feeder.stalledMs))
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
    return this.#halt.isOn
  }

  /** The whole spool is paused. */
  get isPaused(): boolean {
    return this.#halt.isPaused
  }

  /** Ends a task that one of its workers runs or has claimed. @param tell hears what it waits for */
  cancel(name: TaskName, tell: (news: CancelNews) => void): Promise<CancelResult> {
    return this.#cancellations.cancel(name, tell)
  }

  setPauses(pauses: Pauses): void {
    this.#halt.setPauses(pauses)
  }

  setQuiet(isQuiet: boolean): void {
    this.#halt.setQuiet(isQuiet)
  }

  /** Gives ready tasks to workers with room. Call it when there may be new tasks or new room. */
  dispatch(): void {
    if (!this.#hasBegun || this.#main.roster.isClosed || this.isHalted) return
    this.size.letGo()
    this.#main.feeder.dispatch()
    this.#alone.dispatch()
    this.size.look() // at what nobody had room for
  }

  /** @throws SpooldError HANDLER_UNLOADABLE if no worker can start with these options; then nothing has changed */
  prepare(options: PoolOptions): Promise<Replacement> {
    const adopt = () => this.#adopt(options)
    return prepareReplacement(options, { roster: this.#main.roster, size: this.size, adopt })
  }

  #adopt(options: PoolOptions): void {
    this.#options = options
    this.#main.roster.options = options
    this.#alone.options = options
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
  async #end(end: (roster: Group['roster']) => Promise<readonly NamedRef[]>): Promise<void> {
    this.#signals.leave(this)
    this.#unfollow()
    this.size.close()
    this.#alone.close()
    this.#crashed.close()
    this.#aside?.close()
    const left = await Promise.all(
      this.#groups.map(async ({ roster, feeder }) => {
        const tasks = await end(roster)
        feeder.close()
        await feeder.settled()
        return tasks
      }),
    )
    await this.#cancellations.settled()
    await clearMarks(
      this.#options,
      left.flat().flatMap(task => this.#excused(task)),
      this.#events,
    )
  }

  /** Another process, which got it later, may have died with it, of its own doing. */
  #excused(task: NamedRef): Array<NamedRef & { readonly lastRun?: LastRun }> {
    const lastRun = this.#lastRuns.of(task.ref)
    if (lastRun === undefined) return [task]
    return lastRun.kind === 'blameless' ? [{ ...task, lastRun }] : []
  }

  #progressed(count: number): void {
    this.#load.ended(count)
    if (!this.#pace.progressed()) return
    for (const { roster } of this.#groups) roster.hasten()
  }
}

/** How long it is kept without such tasks. */
const IDLE_MS = 1000

/** One worker that runs one task at a time, while there are tasks that have to run alone. */
class Alone {
  readonly group: Group
  readonly #supply: Supply
  readonly #idleTimer = new IdleTimer(() => this.dismiss(), IDLE_MS)

  constructor(options: PoolOptions, context: GroupContext) {
    this.#supply = context.supply
    this.group = new Group(aloneOptions(options), context)
  }

  /** They apply to workers that are spawned from now on. */
  set options(options: PoolOptions) {
    this.group.roster.options = aloneOptions(options)
  }

  /** How many tasks it has. */
  get busy(): number {
    let busy = 0
    for (const { work } of this.group.roster.workers) busy += work.outstanding
    return busy
  }

  dispatch(): void {
    const { roster, feeder } = this.group
    const isWanted = this.#supply.ready > 0 || this.#supply.crashed?.isReady === true
    if (isWanted) {
      roster.target = 1
      roster.fill()
    } else if (roster.workers.size === 0) return
    feeder.dispatch()
    this.#idleTimer.look(!isWanted && this.busy === 0)
  }

  /** It finishes what it runs. */
  dismiss(): void {
    const { roster } = this.group
    roster.target = 0
    for (const worker of roster.workers) if (worker.state !== 'draining') void roster.dismiss(worker)
  }

  close(): void {
    this.#idleTimer.clear()
  }
}
