import type { Ref } from '../../base/task/ref.js'
import type { Found, Report } from '../../base/task/report.js'
import type { PoolContext } from './pool-options.js'
import type { WorkerProcess } from './worker-process.js'

/** A worker that is asked to hand back tasks and does not answer for so long runs something slow. */
const SILENT_MS = 100

/**
 * Takes back from workers what they have not begun, for others. A worker that is silent may have run some of that and may be running
 * one. Another worker that is given it finds out; for those that none is given, somebody looks aside, because people and algorithms
 * count what is due.
 */
export class Withdrawals {
  readonly #context: PoolContext
  /** Those that were withdrawn, may have begun, and were given to nobody since. */
  readonly #withdrawn = new Set<Ref>()

  constructor(context: PoolContext) {
    this.#context = context
  }

  from(worker: WorkerProcess): void {
    const { feed } = this.#context
    const refs = worker.recall()
    feed.lose({ refs })
    if (feed.leases !== undefined) return // there a ref does not tell where to look
    for (const ref of refs) this.#withdrawn.add(ref)
    setTimeout(() => {
      void this.#look(worker).finally(() => this.gave(refs))
    }, SILENT_MS).unref()
  }

  /** These are given to workers. */
  gave(refs: readonly Ref[]): void {
    if (this.#withdrawn.size > 0) for (const ref of refs) this.#withdrawn.delete(ref)
  }

  async #look(worker: WorkerProcess): Promise<void> {
    const { feed, looker } = this.#context
    const unclear = isSilent(worker) ? worker.work.tasks.unclear : []
    if (unclear.length === 0 || looker === undefined) return
    const refs = unclear.map(([, { ref }]) => ref)
    const found = await looker.look(refs)
    if (found === undefined || !isSilent(worker)) return
    // what another worker has by now is locked by that one, or gone because it ran there
    const its = new Map(unclear.map(([number], i) => [number, found[i] ?? 'due'] as const))
    for (const [number, { ref, isRecalled }] of unclear)
      if (isRecalled && !this.#withdrawn.has(ref)) its.delete(number)
    const looked = worker.work.tasks.looked(its)
    worker.work.noteActivity()
    if (looked === undefined) return
    const reports = refs.flatMap((ref, i) => reportOf(ref, found[i]))
    feed.lose({ refs: looked.freed })
    feed.report({ found: { begun: looked.begun, reports } })
    this.#context.dispatch()
  }
}

function isSilent({ state, work }: WorkerProcess): boolean {
  return work.tasks.isRecalling && state !== 'exited'
}

/** What the feed does not know: that what is due is ready, it does. */
function reportOf(ref: Ref, found: Found | undefined): Report[] {
  if (found === 'gone') return [{ ref, kind: 'gone', ranMs: 0 }]
  return typeof found === 'number' ? [{ ref, kind: 'later', atMs: found, ranMs: 0 }] : []
}
