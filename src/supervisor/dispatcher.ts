import type { LastRuns } from '../ipc/messages.js'
import type { LastRun } from '../task/last-run.js'
import type { Ref } from '../task/ref.js'
import type { WorkerProcess } from './worker-process.js'

/** What a worker is given ahead covers about this long at its recent pace, twice: one half runs while the other travels. */
const AHEAD_MS = 5
const MAX_AHEAD = 512
export interface Source {
  readonly ready: number
  due(limit: number): readonly Ref[]
  /** Of a ref whose last run was cut short. */
  lastRun(ref: Ref): LastRun | undefined
  /** A signal whose handler this worker is to run before any task. */
  signalFor(worker: WorkerProcess): number | undefined
}

/**
 * Gives ready refs to workers with room. Slow tasks are given one at a time (`concurrency` at a time), so the most
 * urgent goes to the next free worker; fast ones in batches, so that no worker waits for a message.
 */
export function dispatch(workers: readonly WorkerProcess[], concurrency: number, source: Source): void {
  const open = workers
    .filter(worker => worker.state === 'ready')
    .map(worker => ({ worker, room: roomOf(worker, concurrency) }))
  const free = open.filter(({ room }) => room > 0).sort((a, b) => a.worker.outstanding - b.worker.outstanding)
  for (const [i, { worker, room }] of free.entries()) {
    const signal = source.signalFor(worker)
    if (signal !== undefined) worker.signal(signal)
    if (source.ready === 0) continue
    const share = Math.ceil(source.ready / (free.length - i))
    const refs = source.due(Math.min(signal === undefined ? room : room - 1, share))
    if (refs.length > 0) worker.run(refs, lastRunsOf(refs, source))
  }
}

function lastRunsOf(refs: readonly Ref[], source: Source): LastRuns {
  return refs.flatMap((ref, place) => {
    const lastRun = source.lastRun(ref)
    return lastRun === undefined ? [] : [[place, lastRun] as const]
  })
}

/** How many more refs a worker takes. Zero until half of what it had is done, so that messages carry many. */
function roomOf({ paceMs, outstanding }: WorkerProcess, concurrency: number): number {
  const ahead =
    paceMs === undefined || paceMs >= AHEAD_MS ? 0 : Math.min(MAX_AHEAD, Math.ceil((2 * AHEAD_MS) / paceMs))
  const target = Math.max(concurrency, ahead)
  return outstanding > target / 2 && outstanding >= concurrency ? 0 : target - outstanding
}
