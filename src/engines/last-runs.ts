import type { LastRun } from '../base/task/last-run.js'
import type { Ref } from '../base/task/ref.js'
import type { Report, ReportKind } from '../base/task/report.js'

/** Reports of workers that have not dealt with what the last run left. */
const UNDECIDED: ReadonlySet<ReportKind> = new Set(['untouched', 'locked', 'unreadable'])

/** True if a worker that reports this has dealt with what the last run left. */
export function isDecided(kind: ReportKind): boolean {
  return !UNDECIDED.has(kind)
}

/**
 * How the last runs of refs were cut short, until a worker has dealt with what they left. For feeds whose refs are
 * stable names.
 */
export class LastRuns {
  readonly #lastRuns = new Map<Ref, LastRun>()

  of(ref: Ref): LastRun | undefined {
    return this.#lastRuns.size === 0 ? undefined : this.#lastRuns.get(ref)
  }

  /** Of two processes that had the ref, the one that got it last is the one that can have marked it last. */
  add(ref: Ref, lastRun: LastRun): void {
    const { from = 0 } = this.of(ref) ?? {}
    if (lastRun.from === undefined || lastRun.from >= from) this.#lastRuns.set(ref, lastRun)
  }

  done(refs: readonly Ref[]): void {
    if (this.#lastRuns.size > 0) for (const ref of refs) this.#lastRuns.delete(ref)
  }

  reported(reports: readonly Pick<Report, 'ref' | 'kind'>[]): void {
    if (this.#lastRuns.size === 0) return
    for (const { ref, kind } of reports) if (isDecided(kind)) this.#lastRuns.delete(ref)
  }
}
