import type { LastRun } from '../../base/task/last-run.js'
import type { Ref } from '../../base/task/ref.js'
import type { Report, ReportKind } from '../../base/task/report.js'

/** Reports of workers that have not dealt with what the last run left. */
const UNDECIDED: ReadonlySet<ReportKind> = new Set(['untouched', 'locked', 'unreadable'])

/**
 * How the last runs of refs were cut short, until a worker has dealt with what they left. Where claims have leases the engine keeps
 * that (`Feed.lose`): there a ref need not bring the same task again.
 */
export class LastRuns {
  readonly #lastRuns = new Map<Ref, LastRun>()

  of(ref: Ref): LastRun | undefined {
    return this.#lastRuns.get(ref)
  }

  /** Those whose last run counts as if it had not taken place. */
  excused<Task extends { readonly ref: Ref }>(
    tasks: readonly Task[],
  ): Array<Task & { readonly lastRun: LastRun }> {
    return tasks.flatMap(task => {
      const lastRun = this.of(task.ref)
      return lastRun?.kind === 'blameless' ? [{ ...task, lastRun }] : []
    })
  }

  /** Of those that have one, with their places. */
  among(refs: readonly Ref[]): Array<readonly [place: number, LastRun]> {
    if (this.#lastRuns.size === 0) return []
    return refs.flatMap((ref, place) => {
      const lastRun = this.#lastRuns.get(ref)
      return lastRun === undefined ? [] : [[place, lastRun] as const]
    })
  }

  /**
   * Of the processes that had the ref, the one that got it last may have marked it, or, if that one never began it, the first of them:
   * nobody begins it before what that one left is dealt with.
   */
  add(ref: Ref, lastRun: LastRun): void {
    const last = this.of(ref)
    if (last === undefined) this.#lastRuns.set(ref, lastRun)
    else if (lastRun.from === undefined || lastRun.from >= (last.from ?? 0))
      this.#lastRuns.set(ref, { ...lastRun, before: last.before ?? last })
    else this.#lastRuns.set(ref, { ...last, before: last.before ?? lastRun })
  }

  done(refs: readonly Ref[]): void {
    if (this.#lastRuns.size > 0) for (const ref of refs) this.#lastRuns.delete(ref)
  }

  reported(reports: readonly Pick<Report, 'ref' | 'kind'>[]): void {
    if (this.#lastRuns.size === 0) return
    for (const { ref, kind } of reports) if (!UNDECIDED.has(kind)) this.#lastRuns.delete(ref)
  }
}
