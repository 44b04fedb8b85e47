import { hostname } from 'node:os'
import { SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { CancelNews, CancelResult } from '../../base/task/cancel.js'
import type { Member, MemberFacts } from '../../base/task/member.js'
import type { TaskName } from '../../base/task/ref.js'
import type { PauseFollower, Upkeep } from '../../engines/contracts/upkeep.js'
import type { Counts, FeedStats, Source } from '../../engines/feed.js'
import { PoolChecks } from './pool-checks.js'
import type { PoolOptions } from './pool-options.js'
import type { SignalRouter } from './signal-router.js'
import { type Declared, type Replacement, WorkerPool } from './worker-pool.js'

/** How one spool is to be run: by a start, and by a reload, which keeps the feed of a spool whose `engineKey` stays. */
export interface SpoolWorkersPlan {
  readonly spool: string
  /** Stands for what the spool is opened with. If a reload changes it, the spool needs a new feed. */
  readonly engineKey: string
  readonly pool: PoolOptions
  /** What other machines are told about this process. */
  readonly about: Pick<MemberFacts, 'isDaemon' | 'controls'>
  open(): Promise<{ readonly feed: Source; readonly upkeep: Upkeep }>
}

/** One spool: its tasks and the processes that run them. */
interface SpoolWorkers {
  readonly spool: string
  readonly engineKey: string
  readonly feed: Source
  readonly pool: WorkerPool
  readonly pauses: PauseFollower
  /** Takes back what other machines were told. Absent: they were told nothing. */
  readonly leave: (() => Promise<void>) | undefined
}

/** The figures of a running spool, for people and monitoring. */
export interface SpoolWorkersStats {
  readonly spool: string
  readonly feed: FeedStats
  readonly pool: WorkerPool['stats']
}

/** Part of a daemon that makes no progress, and for how long. */
export interface Stall {
  readonly spool: string
  readonly what: 'scan' | 'dispatch'
  readonly ms: number
}

/** How often `--drain` checks whether any task is left. */
const DRAIN_CHECK_MS = 10
/** A start that takes longer than this is reported. */
const SLOW_START_MS = 5000
const STOPPING = new SpooldError('START_FAILED', 'the daemon is being stopped')

// Longer than others: every state of the daemon's spools is left and entered here.
/**
 * All spools of a daemon.
 *
 * States: starting → running ↔ reloading → stopping → stopped. `stop` works in each of them.
 */
export class Master {
  readonly #events: Emitter
  readonly #signals: SignalRouter
  #spools: SpoolWorkers[] = []
  /** Spools that are starting, or that finish what they run after a reload has replaced them. */
  readonly #aside = new Set<SpoolWorkers>()
  #stopping: Promise<void> | undefined
  #isQuiet = false
  readonly checks: PoolChecks

  constructor(events: Emitter, signals: SignalRouter) {
    this.#events = events
    this.#signals = signals
    this.checks = new PoolChecks(events, () => this.pools)
  }

  /** All spools, including those that are starting, whose code may ask while it is loaded, and those that finish what they run. */
  get all(): ReadonlyArray<{ readonly spool: string; readonly feed: Source; readonly pool: WorkerPool }> {
    return [...this.#spools, ...this.#aside]
  }

  get pools(): WorkerPool[] {
    return this.#spools.map(({ pool }) => pool)
  }

  get stats(): SpoolWorkersStats[] {
    return this.#spools.map(({ spool, feed, pool }) => ({ spool, feed: feed.stats(), pool: pool.stats }))
  }

  /** @returns undefined if no such spool is run */
  feedOf(spool: string): Source | undefined {
    return this.#spools.find(each => each.spool === spool)?.feed
  }

  /** The running tasks, including those of spools that are being replaced. */
  get running(): TaskName[] {
    return this.all.flatMap(({ pool }) => pool.running)
  }

  /** The sum over all spools. */
  get counts(): Counts {
    const states = this.#spools.map(({ feed }) => feed.state)
    const sum = (what: keyof Counts) => states.reduce((total, state) => total + state[what], 0)
    return { ready: sum('ready'), busy: sum('busy'), waiting: sum('waiting') }
  }

  /** No task is known, due or not. */
  get isIdle(): boolean {
    const { ready, busy, waiting } = this.counts
    return ready + busy + waiting === 0
  }

  /** The parts that make no progress although they should, the worst first. Each call looks for progress since the last call. */
  get stalls(): Stall[] {
    const all = this.#spools.flatMap(({ spool, feed, pool }) => [
      { spool, what: 'scan' as const, ms: feed.state.stalledMs },
      { spool, what: 'dispatch' as const, ms: pool.stalledMs },
    ])
    return all.sort((a, b) => b.ms - a.ms)
  }

  get isStopping(): boolean {
    return this.#stopping !== undefined
  }

  /**
   * Resolves when every spool has a ready worker and is given tasks, or when a stop comes first.
   *
   * @param rest starts everything else that can keep a daemon from starting: no task is given out before it resolves
   * @throws SpooldError why a spool cannot start, or what `rest` throws; nothing is left running
   */
  async start(plans: readonly SpoolWorkersPlan[], rest = async (): Promise<void> => {}): Promise<void> {
    try {
      const spools = await this.#openAll(plans)
      if (this.isStopping) return
      for (const workers of spools) {
        this.#aside.delete(workers)
        this.#spools.push(workers)
      }
      await rest()
      if (this.isStopping) return
      for (const { pool } of spools) pool.begin()
    } catch (error) {
      if (this.isStopping) return
      await this.kill()
      throw error
    }
  }

  /** @param stored the path of a task that this daemon itself has stored, so that its feed does not have to find it */
  lookNow(stored?: string): void {
    for (const { feed } of this.#spools) feed.look({ stored })
  }

  get isQuiet(): boolean {
    return this.#isQuiet
  }

  /** While the daemon is quiet, it gives out no tasks and no signals. What runs is left alone. */
  setQuiet(isQuiet: boolean): void {
    this.#isQuiet = isQuiet
    for (const { pool } of this.#spools) pool.halt.setQuiet(isQuiet)
  }

  /** Ends a task that a process of this spool runs, also while the spool is being replaced. */
  async cancel(spool: string, task: TaskName, tell: (news: CancelNews) => void): Promise<CancelResult> {
    for (const { pool } of this.all.filter(each => each.spool === spool)) {
      const result = await pool.cancel(task, tell)
      if (result.result !== 'elsewhere') return result
    }
    return { result: 'elsewhere' }
  }

  /** The number of tasks that wait for the end of a pause. If a whole spool is paused, all that it would otherwise give out count. */
  get paused(): number {
    return this.#spools.reduce((sum, { feed, pool }) => {
      const { ready, parked } = feed.state
      const whole = pool.halt.isPaused ? ready + parked.alone + parked.crashed : 0
      return sum + whole + parked.paused
    }, 0)
  }

  /** The number of named tasks that no handler knows. */
  get unknown(): number {
    return this.#spools.reduce((sum, { feed }) => sum + feed.state.parked['unknown-name'], 0)
  }

  /**
   * Resolves when every spool has run its due tasks that are not paused, and `isIdle` holds; or when the daemon is stopped. A task
   * may have stored others without an event, so after the last task the spools are looked at once more.
   */
  async whenDrained(isIdle: () => boolean): Promise<void> {
    const isDrained = ({ feed, pool }: SpoolWorkers) =>
      feed.state.isDrained || (pool.halt.isPaused && feed.state.busy === 0)
    let hasLooked = false
    const end = this.#events.on('tasks-reported', () => (hasLooked = false))
    while (!this.isStopping) {
      if (!isIdle() || !this.#spools.every(isDrained))
        await new Promise(resolve => setTimeout(resolve, DRAIN_CHECK_MS))
      else if (hasLooked) break
      else {
        hasLooked = true
        for (const { feed } of this.#spools) feed.look({ isForNew: true })
      }
    }
    end()
  }

  /**
   * Makes the spools match the plans. Everything that can fail is done first, so that nothing changes when a spool
   * cannot be used or a handler cannot be loaded. Only one reload runs at a time.
   *
   * @throws SpooldError why nothing was changed
   */
  async reload(plans: readonly SpoolWorkersPlan[]): Promise<void> {
    const old = new Map(this.#spools.map(workers => [workers.spool, workers]))
    const fresh: SpoolWorkers[] = []
    const replacements: Replacement[] = []
    const staying = new Set<SpoolWorkers>()
    const declared: Declared = new Map()
    try {
      for (const plan of plans) {
        if (this.isStopping) throw STOPPING
        const workers = old.get(plan.spool)
        if (workers?.engineKey !== plan.engineKey) fresh.push(await this.#openSpoolWorkers(plan, declared))
        else {
          replacements.push(await workers.pool.prepare(plan.pool, declared))
          staying.add(workers)
        }
      }
      if (this.isStopping) throw STOPPING
    } catch (error) {
      for (const replacement of replacements) replacement.abandon()
      for (const workers of fresh) this.#retire(workers)
      throw error
    }
    const gone = this.#spools.filter(workers => !staying.has(workers))
    this.#spools = [...staying, ...fresh]
    for (const workers of fresh) this.#aside.delete(workers)
    for (const workers of gone) this.#retire(workers)
    for (const { pool } of fresh) pool.begin()
    for (const replacement of replacements) await replacement.commit()
    for (const { feed } of staying) feed.changed('handlers')
  }

  /** Resolves with the spools in the order of their plans. @throws SpooldError why one of them cannot start */
  async #openAll(plans: readonly SpoolWorkersPlan[]): Promise<SpoolWorkers[]> {
    const ready = new Set<SpoolWorkersPlan>()
    const slow = setTimeout(() => {
      const next = plans.find(plan => !ready.has(plan))
      if (next === undefined) return
      const [count, { spool }] = [ready.size, next]
      this.#events.emit('start-waits', { spool, ready: count, spools: plans.length, afterMs: SLOW_START_MS })
    }, SLOW_START_MS)
    const declared: Declared = new Map()
    const open = async (plan: SpoolWorkersPlan) => {
      const workers = await this.#openSpoolWorkers(plan, declared)
      ready.add(plan)
      return workers
    }
    try {
      return await Promise.all(plans.map(open))
    } finally {
      clearTimeout(slow)
    }
  }

  /** Resolves when the workers are ready and the spool is listed. No worker is given a task yet. */
  async #openSpoolWorkers(plan: SpoolWorkersPlan, declared: Declared): Promise<SpoolWorkers> {
    const { spool, engineKey } = plan
    const { feed, upkeep } = await plan.open()
    if (this.isStopping) {
      feed.close()
      throw STOPPING
    }
    const pool = new WorkerPool(plan.pool, feed, this.#events, this.#signals)
    const pauses = upkeep.followPauses(now => pool.halt.setPauses(now))
    const leave = upkeep.join?.(memberOf(pool, plan.about))
    const workers = { spool, engineKey, feed, pool, pauses, leave }
    this.#aside.add(workers)
    try {
      const isReady = pool.start(declared)
      const isListed = feed.open(() => pool.dispatch())
      // after the ready worker has got its first tasks, because forking a large process takes long
      void isListed.then(
        () => setImmediate(() => pool.complete()),
        () => {},
      )
      await Promise.all([isReady, isListed, pauses.start()])
      return workers
    } catch (error) {
      closeSources(workers)
      if (!this.isStopping) {
        await pool.kill()
        this.#aside.delete(workers)
        await leave?.()
      }
      throw error
    }
  }

  /** Lets the workers finish. Meanwhile their successors share the directory with them, as two daemons would. */
  #retire(workers: SpoolWorkers): void {
    this.#aside.add(workers)
    closeSources(workers)
    void workers.pool.stop().then(() => {
      this.#aside.delete(workers)
      return workers.leave?.()
    })
  }

  /** @param mercyMs how long running tasks may take; default: each pool's own mercy */
  async stop(mercyMs?: number): Promise<void> {
    this.#stopping ??= this.#end(pool => pool.stop(mercyMs))
    for (let awaited: unknown; awaited !== this.#stopping; ) {
      awaited = this.#stopping // a kill may replace it
      await awaited
    }
  }

  async kill(): Promise<void> {
    this.#stopping = this.#end(pool => pool.kill())
    await this.#stopping
  }

  async #end(endPool: (pool: WorkerPool) => Promise<void>): Promise<void> {
    this.checks.stop()
    const spools = [...this.#spools, ...this.#aside]
    for (const workers of spools) closeSources(workers)
    await Promise.all(
      spools.map(async ({ pool, leave }) => {
        await endPool(pool)
        await leave?.()
      }),
    )
  }
}

/** From now on, no task comes from the spool. */
function closeSources({ feed, pauses }: SpoolWorkers): void {
  feed.close()
  pauses.close()
}

const startedAtMs = Math.round(Date.now() - process.uptime() * 1000)

/** What other machines are told about the processes of a spool, and may ask of them. */
function memberOf(pool: WorkerPool, about: Pick<MemberFacts, 'isDaemon' | 'controls'>): Member {
  return {
    facts() {
      const { wanted, present, workers } = pool.stats
      const running = workers.reduce((sum, worker) => sum + worker.running.length, 0)
      const { isHalted } = pool
      return {
        ...{ host: hostname(), pid: process.pid, startedAtMs, wanted, present, running, isHalted },
        ...about,
      }
    },
    cancel: (task, tell) => pool.cancel(task, tell),
  }
}
