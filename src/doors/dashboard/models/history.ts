import type { DaemonSnapshot, SpoolSnapshot } from '../../../runtime/stats/snapshot.js'

/** One spool at one moment. */
export interface Sample {
  readonly atMs: number
  readonly due: number
  readonly unseen: number
  /** Tasks whose time has not come. */
  readonly waiting: number
  readonly running: number
  readonly wanted: number
  readonly present: number
  /** Runs per second since the previous sample. The same for `failed`. */
  readonly done: number
  readonly failed: number
}

/** A change of the number of processes that a spool should have. */
interface SizeChange {
  readonly atMs: number
  readonly from: number
  readonly to: number
  readonly reason: string
}

export interface SpoolHistory {
  readonly samples: readonly Sample[]
  /** The newest first. */
  readonly changes: readonly SizeChange[]
}

/** An hour of samples, one every five seconds. For 15 spools, these are a hundred thousand numbers. */
const MOST_SAMPLES = 720
const MOST_CHANGES = 100

interface Kept {
  samples: Sample[]
  changes: SizeChange[]
  last: { readonly atMs: number; readonly done: number; readonly failed: number }
}

/** The figures of the last hour's snapshots, and the last changes of size. Only in memory, so they begin with the process. */
export class History {
  readonly #kept = new Map<string, Kept>()

  add({ atMs, spools }: DaemonSnapshot): void {
    const present = new Set(spools.map(({ directory }) => directory))
    for (const directory of this.#kept.keys()) if (!present.has(directory)) this.#kept.delete(directory)
    for (const spool of spools) this.#addTo(spool, atMs)
  }

  of(directory: string): SpoolHistory {
    const { samples, changes } = this.#kept.get(directory) ?? { samples: [], changes: [] }
    return { samples, changes: changes.toReversed() }
  }

  #addTo(spool: SpoolSnapshot, atMs: number): void {
    const { tasks, totals, processes } = spool
    const last = { atMs, done: totals.done, failed: failuresIn(totals) }
    const kept = this.#kept.get(spool.directory)
    if (kept === undefined) return void this.#kept.set(spool.directory, { samples: [], changes: [], last })
    const seconds = (atMs - kept.last.atMs) / 1000
    if (seconds <= 0) return // the same snapshot, or a clock that was set back
    const perSecond = (now: number, before: number) => Math.max(0, now - before) / seconds
    const sample = {
      atMs,
      due: tasks.due,
      unseen: tasks.unseen,
      waiting: tasks.later,
      running: tasks.running,
      wanted: processes.wanted,
      present: processes.present,
      done: perSecond(last.done, kept.last.done),
      failed: perSecond(last.failed, kept.last.failed),
    }
    const from = kept.samples.at(-1)?.wanted
    const { reason, isByHand } = processes.size
    if (from !== undefined && from !== sample.wanted)
      kept.changes.push({
        atMs,
        from,
        to: sample.wanted,
        reason: reason ?? (isByHand ? 'by hand' : 'the configuration changed'),
      })
    kept.samples.push(sample)
    kept.last = last
    if (kept.samples.length > MOST_SAMPLES) kept.samples.shift()
    if (kept.changes.length > MOST_CHANGES) kept.changes.shift()
  }
}

function failuresIn({ retried, errors, crashes, buried }: SpoolSnapshot['totals']): number {
  return retried + errors + crashes + buried
}
