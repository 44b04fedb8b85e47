import type { NamedRuns } from '../../base/task/named-runs.js'
import type { ReportKind } from '../../base/task/report.js'
import type { Terms } from '../../base/task/terms.js'

/** Counts runs by the name of their task. Runs of one name often follow each other, so the last one is at hand. */
export class NamedRunCounts {
  #byName = new Map<string, NamedRuns>()
  #last: { readonly terms: Terms; readonly runs: NamedRuns } | undefined

  started(terms: Terms): void {
    this.#of(terms).started++
  }

  ended(terms: Terms, kind: ReportKind, ranMs: number): void {
    const runs = this.#of(terms)
    runs.ranMs += ranMs
    if (kind === 'ok') runs.done++
    else if (kind === 'retry' || kind === 'error') runs.retried++
    else if (kind === 'buried') runs.buried++
    else runs.other++
  }

  /** @returns undefined if there is nothing to tell */
  take(): readonly NamedRuns[] | undefined {
    if (this.#last === undefined) return undefined
    const taken = [...this.#byName.values()]
    this.#byName.clear()
    this.#last = undefined
    return taken
  }

  #of(terms: Terms): NamedRuns {
    if (this.#last?.terms === terms) return this.#last.runs
    const { name, slots } = terms
    let runs = this.#byName.get(name)
    if (runs === undefined) {
      runs = {
        name,
        slots: slots?.count ?? null,
        started: 0,
        done: 0,
        retried: 0,
        buried: 0,
        other: 0,
        ranMs: 0,
      }
      this.#byName.set(name, runs)
    }
    this.#last = { terms, runs }
    return runs
  }
}
