import { Alarm } from '../../base/clock.js'
import { messageOf } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { PurgeLimits, Upkeep } from '../../engines/contracts/upkeep.js'
import { openEngine } from '../../engines/open-engine.js'
import type { AsideProcess } from './aside.js'

/** A sweep lists whole directories, so it must be rare. */
const MAX_INTERVAL_MS = 600_000
const MIN_INTERVAL_MS = 1000
/** The first sweep waits this long, because after a start there may be a backlog to run, and sweeping is not urgent. */
const FIRST_AFTER_MS = 10_000
const RECORDS_INTERVAL_MS = 3_600_000
/** How long the record of a vanished task is kept. */
const RECORD_AGE_MS = 86_400_000

/** A spool and the limits of its upkeep. */
export interface MaintainedSpool {
  readonly spool: string
  /** True if this daemon runs the spool, so that it also removes dead letters and records. */
  readonly isOwn: boolean
  readonly graceMs: number
  readonly idTtlMs: number
  readonly limits: PurgeLimits
}

/**
 * Sweeps spools at intervals, the first time soon after the start, and purges the dead letters of the spools that this daemon runs.
 */
export class Maintenance {
  readonly #events: Emitter
  readonly #aside: AsideProcess | undefined
  readonly #alarm = new Alarm(() => void this.#sweep())
  #spools: readonly MaintainedSpool[] = []
  /** The last reported error per spool and kind of upkeep, until it works again. */
  readonly #reported = new Map<string, string>()
  #recordsSweptAt = Number.NEGATIVE_INFINITY
  #isSweeping = false

  /** @param aside a process for sweeps alone, so that nothing else waits for them; absent: this process sweeps */
  constructor(events: Emitter, aside?: AsideProcess) {
    this.#events = events
    this.#aside = aside
  }

  /** Call it again after a reload, with the spools now in effect. */
  start(spools: readonly MaintainedSpool[]): void {
    const own = spools.filter(({ isOwn }) => isOwn)
    // if a directory is listed as own and as external, the own one counts
    this.#spools = [...new Map([...spools, ...own].map(each => [each.spool, each])).values()]
    this.#alarm.wakeAt(performance.now() + Math.min(FIRST_AFTER_MS, this.#intervalMs))
  }

  stop(): void {
    this.#spools = []
    this.#alarm.clear()
    this.#aside?.close()
  }

  async #sweep(): Promise<void> {
    if (this.#isSweeping) return
    this.#isSweeping = true
    for (const each of this.#spools) await this.#reportOnce(each, 'sweep', () => this.#sweepOne(each))
    for (const each of this.#own) await this.#reportOnce(each, 'purge', () => this.#purgeOne(each))
    await this.#sweepRecords()
    this.#isSweeping = false
    if (this.#spools.length > 0) this.#alarm.wakeAt(performance.now() + this.#intervalMs)
  }

  get #own(): MaintainedSpool[] {
    return this.#spools.filter(({ isOwn }) => isOwn)
  }

  get #intervalMs(): number {
    const ages = this.#spools.flatMap(({ graceMs, idTtlMs, limits }) => [
      graceMs,
      idTtlMs,
      limits.maxAgeMs ?? 0,
    ])
    const shortest = Math.min(...ages.filter(ms => ms > 0), MAX_INTERVAL_MS * 2)
    return Math.max(MIN_INTERVAL_MS, Math.min(MAX_INTERVAL_MS, shortest / 2))
  }

  async #sweepOne({ spool, graceMs, idTtlMs }: MaintainedSpool): Promise<void> {
    const upkeep = await this.#upkeepOf(spool)
    const swept = await upkeep.sweep({ graceMs, idTtlMs })
    if (swept.removed + swept.published + swept.givenBack > 0)
      this.#events.emit('spool-swept', { spool, ...swept })
  }

  async #purgeOne({ spool, limits }: MaintainedSpool): Promise<void> {
    const upkeep = await this.#upkeepOf(spool)
    const { removed, fault } = await upkeep.purge(limits)
    if (removed > 0) this.#events.emit('spool-purged', { spool, removed })
    if (fault !== undefined) throw new Error(fault)
  }

  /** Runs less often: there may be a record for each of a million tasks, and removing them is not urgent. */
  async #sweepRecords(): Promise<void> {
    const now = performance.now()
    if (now - this.#recordsSweptAt < RECORDS_INTERVAL_MS) return
    this.#recordsSweptAt = now
    for (const each of this.#own)
      await this.#reportOnce(each, 'records', async () => {
        const upkeep = await this.#upkeepOf(each.spool)
        await upkeep.forget(RECORD_AGE_MS)
      })
  }

  #upkeepOf(spool: string): Promise<Upkeep> {
    return openEngine(spool).upkeep(this.#aside?.ask)
  }

  /** Runs `act`, and reports an error once, until it works or fails in another way. */
  async #reportOnce({ spool }: MaintainedSpool, what: string, act: () => Promise<void>): Promise<void> {
    const key = `${what} ${spool}`
    try {
      await act()
      this.#reported.delete(key)
    } catch (error) {
      if (this.#spools.length === 0) return // a stop cut it short
      const text = messageOf(error)
      if (this.#reported.get(key) === text) return
      this.#reported.set(key, text)
      this.#events.emit('spool-cleanup-failed', { spool, error: text })
    }
  }
}
