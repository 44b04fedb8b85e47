import { SpooldError } from '../base/errors.js'
import type { Feed } from '../engines/feed.js'
import type { Ref } from '../task/ref.js'
import type { SpoolControls } from './questions.js'
import type { PoolOptions, Replacement, WorkerPool } from './worker-pool.js'

/** One spool: its tasks and the processes that run them. */
interface SpoolWorkers {
  readonly spool: string
  readonly feed: Feed
  readonly pool: WorkerPool
  /** What the spool was opened with. If a reload changes it, the spool needs a new feed. */
  readonly engineKey: string
}

/** What a reload wants: the same spool with other processes, or a spool to open. */
export interface SpoolWorkersPlan {
  readonly spool: string
  readonly engineKey: string
  readonly pool: PoolOptions
  open(): Promise<SpoolWorkers>
}

/** How often `--drain` checks whether any task is left. */
const DRAIN_CHECK_MS = 50
const STOPPING = new SpooldError('START_FAILED', 'the daemon is being stopped')

/**
 * All spools of a daemon.
 *
 * States: starting → running ↔ reloading → stopping → stopped. `stop` works in each of them.
 */
export class Master {
  #crews: SpoolWorkers[] = []
  /** Spools that are starting, or that finish what they run after a reload has replaced them. */
  readonly #aside = new Set<SpoolWorkers>()
  #stopping: Promise<void> | undefined

  /** The controls that handlers have over each spool. */
  get questioned(): SpoolControls[] {
    return this.#crews.map(({ feed, pool }) => ({
      pids: [...pool.workers].map(({ pid }) => pid),
      setFrequency: frequencyMs => feed.setFrequency(frequencyMs),
    }))
  }

  /** The running tasks, including those of spools that are being replaced. */
  get running(): Ref[] {
    const pools = [...this.#crews, ...this.#aside].map(({ pool }) => pool)
    return pools.flatMap(({ workers }) => [...workers].flatMap(({ begun }) => begun.map(({ ref }) => ref)))
  }

  get isStopping(): boolean {
    return this.#stopping !== undefined
  }

  /**
   * Resolves when every spool has a ready worker, or when a stop comes first.
   *
   * @throws SpooldError what keeps a spool from starting; nothing is left running
   */
  async start(plans: readonly SpoolWorkersPlan[]): Promise<void> {
    try {
      const crews = await Promise.all(plans.map(plan => this.#openSpoolWorkers(plan)))
      if (this.isStopping) return
      for (const crew of crews) {
        this.#aside.delete(crew)
        this.#crews.push(crew)
        crew.pool.begin()
      }
    } catch (error) {
      if (this.isStopping) return
      await this.kill()
      throw error
    }
  }

  /** @param stored the path of a task that this daemon itself has stored, so that its feed does not have to find it */
  lookNow(stored?: string): void {
    for (const { feed } of this.#crews) feed.lookNow(stored)
  }

  /** Resolves when every spool has run its due tasks, and `isIdle` holds. */
  async whenDrained(isIdle: () => boolean): Promise<void> {
    while (!isIdle() || !this.#crews.every(({ feed }) => feed.isDrained))
      await new Promise(resolve => setTimeout(resolve, DRAIN_CHECK_MS))
  }

  /**
   * Makes the crews match the plans. Everything that can fail is done first, so that nothing changes when a spool
   * cannot be used or a handler cannot be loaded. Only one reload runs at a time.
   *
   * @throws SpooldError why nothing was changed
   */
  async reload(plans: readonly SpoolWorkersPlan[]): Promise<void> {
    const old = new Map(this.#crews.map(crew => [crew.spool, crew]))
    const fresh: SpoolWorkers[] = []
    const replacements: Replacement[] = []
    const staying = new Set<SpoolWorkers>()
    try {
      for (const plan of plans) {
        if (this.isStopping) throw STOPPING
        const crew = old.get(plan.spool)
        if (crew?.engineKey !== plan.engineKey) fresh.push(await this.#openSpoolWorkers(plan))
        else {
          replacements.push(await crew.pool.prepare(plan.pool))
          staying.add(crew)
        }
      }
      if (this.isStopping) throw STOPPING
    } catch (error) {
      for (const replacement of replacements) replacement.abandon()
      for (const crew of fresh) this.#retire(crew)
      throw error
    }
    const gone = this.#crews.filter(crew => !staying.has(crew))
    this.#crews = [...staying, ...fresh]
    for (const crew of fresh) this.#aside.delete(crew)
    for (const crew of gone) this.#retire(crew)
    for (const { pool } of fresh) pool.begin()
    for (const replacement of replacements) await replacement.commit()
  }

  /** Resolves when the workers are ready and the spool is listed. No worker is given a task yet. */
  async #openSpoolWorkers(plan: SpoolWorkersPlan): Promise<SpoolWorkers> {
    const crew = await plan.open()
    this.#aside.add(crew)
    try {
      if (this.isStopping) throw STOPPING
      const isReady = crew.pool.start()
      const isListed = crew.feed.open(() => crew.pool.dispatch()).then(() => crew.pool.complete())
      await Promise.all([isReady, isListed])
      return crew
    } catch (error) {
      crew.feed.close()
      if (!this.isStopping) {
        await crew.pool.kill()
        this.#aside.delete(crew)
      }
      throw error
    }
  }

  /** Lets a crew finish. Meanwhile its successor shares the directory with it, as two daemons would. */
  #retire(crew: SpoolWorkers): void {
    this.#aside.add(crew)
    crew.feed.close()
    void crew.pool.stop().then(() => this.#aside.delete(crew))
  }

  async stop(): Promise<void> {
    this.#stopping ??= this.#end(pool => pool.stop())
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
    const crews = [...this.#crews, ...this.#aside]
    for (const { feed } of crews) feed.close()
    await Promise.all(crews.map(({ pool }) => endPool(pool)))
  }
}
