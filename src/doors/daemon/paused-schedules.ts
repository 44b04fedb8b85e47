import { LastKnown } from '../../base/last-known.js'
import type { SchedulePauses } from '../../base/task/schedule.js'
import { openEngine } from '../../engines/open-engine.js'

type Since = ReadonlyMap<string, number>

interface Known {
  readonly pauses: Promise<SchedulePauses>
  readonly last: LastKnown<Since>
  sinceMs: Since
  /** On the clock of `performance.now()`. */
  untilMs: number
  /** How often it was changed here. */
  changes: number
}

/** Another daemon, or a person, obeys and is obeyed within this time. */
const KNOWN_MS = 1000
const PATIENCE_MS = 800

/** What people have paused of the schedules of some spools. */
export class PausedSchedules {
  readonly #spools = new Map<string, Known>()

  /** Since when, epoch ms, by `scheduleHash`. While a spool cannot be read, what was known of it last. @param spool its real path */
  async of(spool: string): Promise<Since> {
    const known = this.#open(spool)
    if (performance.now() < known.untilMs) return known.sinceMs
    const { changes } = known
    known.sinceMs = await known.last.get()
    if (known.changes === changes) known.untilMs = performance.now() + KNOWN_MS
    return known.sinceMs
  }

  async pause(spool: string, hash: string): Promise<void> {
    const known = this.#open(spool)
    await (await known.pauses).pause(hash)
    changed(known)
  }

  /** @returns false if it was not paused */
  async resume(spool: string, hash: string): Promise<boolean> {
    const known = this.#open(spool)
    const wasPaused = await (await known.pauses).resume(hash)
    changed(known)
    return wasPaused
  }

  #open(spool: string): Known {
    const known = this.#spools.get(spool) ?? knownOf(spool)
    this.#spools.set(spool, known)
    return known
  }
}

function knownOf(spool: string): Known {
  const pauses = openEngine(spool)
    .upkeep()
    .then(({ schedulePauses }) => schedulePauses)
  const nothing: Since = new Map()
  const last = new LastKnown(async () => (await pauses).read(), nothing, PATIENCE_MS)
  return { pauses, last, sinceMs: nothing, untilMs: 0, changes: 0 }
}

function changed(known: Known): void {
  known.changes++
  known.untilMs = 0
  known.last.changed()
}
