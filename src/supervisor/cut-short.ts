import type { LastRun } from '../task/last-run.js'
import type { Ref } from '../task/ref.js'
import type { Report, ReportKind } from '../task/report.js'
import type { Exit } from './worker-listener.js'
import type { WorkerProcess } from './worker-process.js'

/** Nobody has looked at what the last run left. */
const UNDECIDED: ReadonlySet<ReportKind> = new Set(['untouched', 'locked', 'unreadable'])

type Cut = Pick<WorkerProcess, 'pid' | 'begun'>

/** How the last runs of refs were cut short, until a worker reports them again. Of one worker, the first reason is right. */
export class CutShort {
  readonly #lastRuns = new Map<Ref, { readonly pid: number; readonly lastRun: LastRun }>()

  of(ref: Ref): LastRun | undefined {
    return this.#lastRuns.get(ref)?.lastRun
  }

  done(refs: readonly Ref[]): void {
    if (this.#lastRuns.size > 0) for (const ref of refs) this.#lastRuns.delete(ref)
  }

  reported(reports: readonly Pick<Report, 'ref' | 'kind'>[]): void {
    if (this.#lastRuns.size === 0) return
    for (const { ref, kind } of reports) if (!UNDECIDED.has(kind)) this.#lastRuns.delete(ref)
  }

  /** The worker is killed because one of its tasks overran; its neighbours did nothing. */
  byHarakiri(
    { pid, begun, isPastOwnDeadline }: Cut & Pick<WorkerProcess, 'isPastOwnDeadline'>,
    harakiriMs: number,
  ): void {
    const now = performance.now()
    const cause = isPastOwnDeadline
      ? 'it overran the deadline that it had set'
      : `it overran spooler-harakiri (${harakiriMs / 1000} s)`
    for (const { ref, startedAt } of begun)
      this.#add(
        pid,
        ref,
        !isPastOwnDeadline && startedAt + harakiriMs > now ? { kind: 'blameless' } : { kind: 'crash', cause },
      )
  }

  /** The worker is killed because it was replaced or stopped, and its mercy is over. */
  byStop({ pid, begun }: Cut): void {
    for (const { ref } of begun) this.#add(pid, ref, { kind: 'blameless' })
  }

  byDeath({ pid, begun }: Cut, { code, signal }: Exit): void {
    const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
    for (const { ref } of begun) this.#add(pid, ref, { kind: 'crash', cause: `its process ${how}` })
  }

  #add(pid: number, ref: Ref, lastRun: LastRun): void {
    if (this.#lastRuns.get(ref)?.pid !== pid) this.#lastRuns.set(ref, { pid, lastRun })
  }
}
