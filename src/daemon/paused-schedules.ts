import { openEngine } from '../engines/open-engine.js'
import type { SchedulePauses } from '../task/schedule.js'

interface Known {
  readonly sinceMs: ReadonlyMap<string, number>
  /** On the clock of `performance.now()`. */
  readonly untilMs: number
}

/** Another daemon, or a person, obeys and is obeyed within this time. */
const KNOWN_MS = 1000

/** What people have paused of the schedules of some spools. */
export class PausedSchedules {
  readonly #pauses = new Map<string, Promise<SchedulePauses>>()
  readonly #known = new Map<string, Known>()

  /** Since when, epoch ms, by `scheduleHash`. While a spool cannot be read, what was known of it last. @param spool its real path */
  async of(spool: string): Promise<ReadonlyMap<string, number>> {
    const known = this.#known.get(spool)
    if (known !== undefined && performance.now() < known.untilMs) return known.sinceMs
    const pauses = await this.#open(spool)
    const sinceMs = readOr(pauses, known?.sinceMs ?? new Map())
    this.#known.set(spool, { sinceMs, untilMs: performance.now() + KNOWN_MS })
    return sinceMs
  }

  async pause(spool: string, hash: string): Promise<void> {
    await (await this.#open(spool)).pause(hash)
    this.#known.delete(spool)
  }

  /** @returns false if it was not paused */
  async resume(spool: string, hash: string): Promise<boolean> {
    const wasPaused = await (await this.#open(spool)).resume(hash)
    this.#known.delete(spool)
    return wasPaused
  }

  #open(spool: string): Promise<SchedulePauses> {
    const opened =
      this.#pauses.get(spool) ??
      openEngine(spool)
        .upkeep()
        .then(({ schedulePauses }) => schedulePauses)
    this.#pauses.set(spool, opened)
    return opened
  }
}

function readOr(pauses: SchedulePauses, last: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  try {
    return pauses.read()
  } catch {
    return last
  }
}
