import { messageOf } from '../base/errors.js'
import type { Engine } from '../engines/engine.js'
import type { Emitter } from '../events/emitter.js'
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

/**
 * All spools of a daemon.
 *
 * States: starting → running ↔ reloading → stopping → stopped.
 */
export class Master {
  readonly #events: Emitter
  #crews: Crew[] = []
  /** Replaced or given up, but still finishing what they run. */
  readonly #retired = new Set<Crew>()
  #reloading: Promise<void> | undefined
  #stopping: Promise<void> | undefined

  constructor(events: Emitter) {
    this.#events = events
  }

  /** @throws SpooldError what keeps the first spool that cannot start from starting; nothing is left running */
  async start(plans: readonly CrewPlan[]): Promise<void> {
    try {
      for (const plan of plans) this.#crews.push(await startCrew(plan))
    } catch (error) {
      await this.kill()
      throw error
    }
  }

  scanNow(): void {
    for (const { engine } of this.#crews) engine.scanNow()
  }

  /** Resolves when every spool has run what was due. */
  async whenDrained(): Promise<void> {
    while (!this.#crews.every(({ engine }) => engine.isDrained))
      await new Promise(resolve => setTimeout(resolve, DRAIN_CHECK_MS))
  }

  /** Makes the crews be what the plans say. When one cannot, those before it are changed and the rest go on as they were. */
  async reload(plans: readonly CrewPlan[]): Promise<void> {
    if (this.#reloading !== undefined || this.#stopping !== undefined) return
    this.#reloading = this.#reload(plans)
    await this.#reloading
    this.#reloading = undefined
  }

  async #reload(plans: readonly CrewPlan[]): Promise<void> {
    try {
      for (const plan of plans) await this.#reloadCrew(plan)
      const wanted = new Set(plans.map(({ spool }) => spool))
      for (const crew of this.#crews.filter(({ spool }) => !wanted.has(spool))) this.#retire(crew)
      this.#events.emit('reload-done', {})
    } catch (error) {
      this.#events.emit('reload-refused', { error: messageOf(error) })
    }
  }

  async #reloadCrew(plan: CrewPlan): Promise<void> {
    const before = this.#crews.find(({ spool }) => spool === plan.spool)
    if (before?.engineKey === plan.engineKey) return before.pool.reload(plan.pool)
    this.#crews.push(await startCrew(plan))
    if (before !== undefined) this.#retire(before)
  }

  /** Lets a crew finish; its successor shares the directory with it meanwhile, as two daemons would. */
  #retire(crew: Crew): void {
    this.#crews = this.#crews.filter(each => each !== crew)
    this.#retired.add(crew)
    crew.engine.close()
    void crew.pool.stop().then(() => this.#retired.delete(crew))
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
    for (const { engine } of this.#crews) engine.close()
    await Promise.all([...this.#crews, ...this.#retired].map(({ pool }) => endPool(pool)))
  }
}

async function startCrew(plan: CrewPlan): Promise<Crew> {
  const crew = await plan.open()
  try {
    await Promise.all([crew.pool.start(), crew.engine.onWakeUp(() => crew.pool.dispatch())])
    return crew
  } catch (error) {
    crew.engine.close()
    await crew.pool.kill()
    throw error
  }
}
