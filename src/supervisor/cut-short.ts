import type { LastRun } from '../task/last-run.js'
import type { Ref } from '../task/ref.js'
import type { Exit } from './worker-process.js'

type Running = ReadonlyArray<{ readonly ref: Ref; readonly startedAt: number | undefined }>

/** How the last runs of refs were cut short, until a worker reports them again. Whoever is named first is right. */
export class CutShort {
  readonly #lastRuns = new Map<Ref, LastRun>()

  of(ref: Ref): LastRun | undefined {
    return this.#lastRuns.get(ref)
  }

  reported(reports: readonly { readonly ref: Ref }[]): void {
    if (this.#lastRuns.size > 0) for (const { ref } of reports) this.#lastRuns.delete(ref)
  }

  /** Their worker is killed because one of them overran; its neighbours did nothing. */
  byHarakiri(running: Running, harakiriMs: number): void {
    const now = performance.now()
    const cause = `it overran spooler-harakiri (${harakiriMs / 1000} s)`
    for (const { ref, startedAt } of running)
      this.#add(ref, (startedAt ?? now) + harakiriMs > now ? { kind: 'blameless' } : { kind: 'crash', cause })
  }

  /** Their worker is killed because it was replaced or stopped, and its mercy is over. */
  byStop(running: readonly Ref[]): void {
    for (const ref of running) this.#add(ref, { kind: 'blameless' })
  }

  byDeath(left: readonly Ref[], { code, signal }: Exit): void {
    if (left.length === 0) return
    const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
    for (const ref of left) this.#add(ref, { kind: 'crash', cause: `its process ${how}` })
  }

  #add(ref: Ref, lastRun: LastRun): void {
    if (!this.#lastRuns.has(ref)) this.#lastRuns.set(ref, lastRun)
  }
}
