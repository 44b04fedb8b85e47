import type { DaemonSnapshot, SpoolSnapshot } from '../../../runtime/stats/snapshot.js'

/** One spool at one moment. */
export interface Sample {
  readonly atMs: number
  readonly due: number
  readonly unseen: number
  /** Tasks whose time has not come, and comes. */
  readonly waiting: number
  readonly running: number
  readonly wanted: number
  readonly present: number
  /** Runs per second since the previous snapshot. The same for `failed`. */
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
export const MOST_CHANGES = 100

interface Kept {
  samples: Sample[]
  changes: SizeChange[]
  last: Pick<Sample, 'atMs' | 'done' | 'failed' | 'wanted'>
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
    const { wanted, present, size } = processes
    const last = { atMs, done: totals.done, failed: failuresIn(totals), wanted }
    const kept = this.#kept.get(spool.directory)
    if (kept === undefined) return void this.#kept.set(spool.directory, { samples: [], changes: [], last })
    const before = kept.last
    kept.last = last
    if (wanted !== before.wanted) {
      const reason = size.reason ?? (size.isByHand ? 'by hand' : 'the configuration changed')
      kept.changes.push({ atMs, from: before.wanted, to: wanted, reason })
      if (kept.changes.length > MOST_CHANGES) kept.changes.shift()
    }
    // if the clock was set back, samples of later times go, because the times of a chart only grow
    if (atMs < before.atMs) kept.samples = kept.samples.filter(sample => sample.atMs < atMs)
    if (atMs <= before.atMs) return
    const perSecond = (now: number, then: number) => (Math.max(0, now - then) * 1000) / (atMs - before.atMs)
    kept.samples.push({
      ...{ atMs, wanted, present },
      ...{ due: tasks.due, unseen: tasks.unseen, waiting: tasks.later - tasks.held, running: tasks.running },
      done: perSecond(last.done, before.done),
      failed: perSecond(last.failed, before.failed),
    })
    if (kept.samples.length > MOST_SAMPLES) kept.samples.shift()
  }
}

function failuresIn({ retried, errors, crashes, buried }: SpoolSnapshot['totals']): number {
  return retried + errors + crashes + buried
}
