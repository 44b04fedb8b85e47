import { SpooldError } from '../base/errors.js'
import type { Engine } from '../engines/engine.js'
import { type Ref, toByteString } from '../task/ref.js'
import type { Questioned } from './questions.js'
import type { PoolOptions, WorkerPool } from './worker-pool.js'

/** One spool: its tasks and the processes that run them. */
export interface Crew {
  readonly spool: string
  readonly engine: Engine
  readonly pool: WorkerPool
  /** What the engine was opened with: when that changes, a reload needs another engine. */
  readonly engineKey: string
}

/** What a reload wants: the same spool with other processes, or a crew that is to be opened. */
export interface CrewPlan {
  readonly spool: string
  readonly engineKey: string
  readonly pool: PoolOptions
  open(): Promise<Crew>
}

/** How often --drain looks whether anything is left. */
const DRAIN_CHECK_MS = 50
const STOPPING = new SpooldError('START_FAILED', 'the daemon is being stopped')

/**
 * All spools of a daemon.
 *
 * States: starting → running ↔ reloading → stopping → stopped. A stop is obeyed in each of them.
 */
export class Master {
  #crews: Crew[] = []
  /** Not yet, or no longer, among the crews: they start, or finish what they run. */
  readonly #aside = new Set<Crew>()
  #stopping: Promise<void> | undefined

  /** What handlers may ask of every spool. */
  get questioned(): Questioned[] {
    return this.#crews.map(({ engine, pool }) => ({
      pids: [...pool.workers].map(({ pid }) => pid),
      setFrequency: frequencyMs => engine.setFrequency(frequencyMs),
    }))
  }

  /** What still runs, also in what is being replaced. */
  get running(): Ref[] {
    const pools = [...this.#crews, ...this.#aside].map(({ pool }) => pool)
    return pools.flatMap(({ workers }) => [...workers].flatMap(({ begun }) => begun.map(({ ref }) => ref)))
  }

  get isStopping(): boolean {
    return this.#stopping !== undefined
  }

  /**
   * Resolves when every spool has a ready worker, or when it was told to stop before.
   *
   * @throws SpooldError what keeps the first spool that cannot start from starting; nothing is left running
   */
  async start(plans: readonly CrewPlan[]): Promise<void> {
    try {
      for (const plan of plans) this.#crews.push(await this.#startCrew(plan))
    } catch (error) {
      if (this.isStopping) return
      await this.kill()
      throw error
    }
  }

  /** A task was stored from within: its engine need not find it. */
  stored(path: string): void {
    for (const { spool, engine } of this.#crews)
      if (path.startsWith(`${spool}/`)) engine.stored(toByteString(path.slice(spool.length + 1)))
  }

  scanNow(): void {
    for (const { engine } of this.#crews) engine.scanNow()
  }

  /** Resolves when every spool has run what was due, and nothing else is under way. */
  async whenDrained(isIdle: () => boolean): Promise<void> {
    while (!isIdle() || !this.#crews.every(({ engine }) => engine.isDrained))
      await new Promise(resolve => setTimeout(resolve, DRAIN_CHECK_MS))
  }

  /**
   * Makes the crews be what the plans say. What must be opened is opened first, so that nothing is changed when a spool
   * cannot be used or a handler cannot be loaded. One reload at a time.
   *
   * @throws SpooldError why the crews are what they were
   */
  async reload(plans: readonly CrewPlan[]): Promise<void> {
    const old = new Map(this.#crews.map(crew => [crew.spool, crew]))
    const kept = plans.filter(({ spool, engineKey }) => old.get(spool)?.engineKey === engineKey)
    const fresh: Crew[] = []
    try {
      for (const plan of plans) if (!kept.includes(plan)) fresh.push(await this.#startCrew(plan))
      for (const { spool, pool } of kept) {
        if (this.isStopping) throw STOPPING
        await old.get(spool)?.pool.reload(pool)
      }
    } catch (error) {
      for (const crew of fresh) this.#retire(crew)
      throw error
    }
    const staying = new Set(kept.map(({ spool }) => spool))
    const gone = this.#crews.filter(({ spool }) => !staying.has(spool))
    this.#crews = [...this.#crews.filter(({ spool }) => staying.has(spool)), ...fresh]
    for (const crew of gone) this.#retire(crew)
  }

  async #startCrew(plan: CrewPlan): Promise<Crew> {
    const crew = await plan.open()
    this.#aside.add(crew)
    try {
      if (this.isStopping) throw STOPPING
      await Promise.all([crew.pool.start(), crew.engine.onWakeUp(() => crew.pool.dispatch())])
      return crew
    } catch (error) {
      crew.engine.close()
      if (!this.isStopping) await crew.pool.kill()
      throw error
    } finally {
      if (!this.isStopping) this.#aside.delete(crew)
    }
  }

  /** Lets a crew finish; its successor shares the directory with it meanwhile, as two daemons would. */
  #retire(crew: Crew): void {
    this.#aside.add(crew)
    crew.engine.close()
    void crew.pool.stop().then(() => this.#aside.delete(crew))
  }

  async stop(): Promise<void> {
    this.#stopping ??= this.#end(pool => pool.stop())
    await this.#stopping
  }

  async kill(): Promise<void> {
    this.#stopping = this.#end(pool => pool.kill())
    await this.#stopping
  }

  async #end(endPool: (pool: WorkerPool) => Promise<void>): Promise<void> {
    const crews = [...this.#crews, ...this.#aside]
    for (const { engine } of crews) engine.close()
    await Promise.all(crews.map(({ pool }) => endPool(pool)))
  }
}
