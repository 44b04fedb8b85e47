import { Alarm } from './base/clock.js'
import { messageOf } from './base/errors.js'
import type { Options } from './config/option-table.js'
import type { Emitter } from './events/emitter.js'
import { type SweepOptions, sweepSpool } from './spool/sweep.js'
import { toByteString } from './task/ref.js'

/** A sweep lists whole directories: seldom enough that nobody notices. */
const MAX_INTERVAL_MS = 600_000
const MIN_INTERVAL_MS = 1000
/** A start has a backlog to run; what is left over has time. */
const FIRST_AFTER_MS = 10_000

/** Sweeps spools now and then, from soon after the start on. */
export class Sweeper {
  readonly #events: Emitter
  readonly #alarm = new Alarm(() => void this.#sweep())
  #spools: readonly string[] = []
  #options: Omit<SweepOptions, 'spool'> = { graceMs: 0, idTtlMs: 0 }
  readonly #told = new Set<string>()
  #isSweeping = false

  constructor(events: Emitter) {
    this.#events = events
  }

  /** Also after a reload, with what is in place now. */
  start(spools: readonly string[], { spoolerSweepMs, spoolerIdTtlMs }: Options): void {
    this.#spools = [...new Set(spools)]
    this.#options = { graceMs: spoolerSweepMs, idTtlMs: spoolerIdTtlMs }
    this.#alarm.wakeAt(performance.now() + Math.min(FIRST_AFTER_MS, this.#intervalMs))
  }

  stop(): void {
    this.#spools = []
    this.#alarm.clear()
  }

  async #sweep(): Promise<void> {
    if (this.#isSweeping) return
    this.#isSweeping = true
    for (const spool of this.#spools) await this.#sweepOne(spool)
    this.#isSweeping = false
    if (this.#spools.length > 0) this.#alarm.wakeAt(performance.now() + this.#intervalMs)
  }

  get #intervalMs(): number {
    const { graceMs, idTtlMs } = this.#options
    const shortest = Math.min(...[graceMs, idTtlMs].filter(ms => ms > 0), MAX_INTERVAL_MS * 2)
    return Math.max(MIN_INTERVAL_MS, Math.min(MAX_INTERVAL_MS, shortest / 2))
  }

  async #sweepOne(spool: string): Promise<void> {
    try {
      const swept = await sweepSpool({ spool: toByteString(spool), ...this.#options })
      if (swept.removed + swept.published > 0) this.#events.emit('spool-swept', { spool, ...swept })
    } catch (error) {
      if (this.#told.has(spool)) return
      this.#told.add(spool)
      this.#events.emit('spool-unswept', { spool, error: messageOf(error) })
    }
  }
}
