import type { Ref } from '../../base/task/ref.js'
import type { WorkerProcess } from './worker-process.js'

/** 5 ms of work for the fastest tasks. Compared with 128: a quarter of the messages, a twelfth more tasks a second. */
const MAX_BATCH = 512
/**
 * A batch is sized to take a worker about this long at its recent pace. A worker has two batches: one runs, one waits. So the order
 * of tasks bends by at most twice this time.
 *
 * `few`: if few tasks wait, two batches are most of them, so order matters more than messages. `many`: a message wakes a process,
 * which takes longer than some tasks do, so messages matter more than order. `fewByArrival`: nothing that comes later is more urgent,
 * and a worker reads a message within 5 ms in any case. `beside`: of tasks that run beside each other, some may be far slower than
 * the pace, and fill the places of a worker that has many tasks ahead.
 */
const BATCH_MS = { few: 2, fewByArrival: 5, beside: 5, many: 20 }
/** In the order of arrival, one slower task may wait in a worker behind the running ones, but not for longer than this. */
const AHEAD_MS = 50
/** From this number on, many tasks wait. */
const MANY = 1000

export interface Source {
  readonly ready: number
  /** The size of a batch, in milliseconds of work, where other workers cannot have what a worker has ahead; undefined: they can. */
  readonly batchMs: number | undefined
  /** True if no task that comes later is more urgent than those that wait. */
  readonly isByArrival: boolean
  /** True if a worker is to go as soon as it is idle, so that none is given tasks ahead. */
  readonly isShrinking: boolean
  due(limit: number): readonly Ref[]
  give(worker: WorkerProcess, refs: readonly Ref[]): void
  /** A signal that this worker is to handle before any task. */
  signalFor(worker: WorkerProcess): number | undefined
}

interface Open {
  readonly worker: WorkerProcess
  /** How many more refs the worker takes, in batches of at most `batch`. */
  room: number
  readonly batch: number
}

/**
 * Gives ready refs to workers with room. Slow tasks are given one at a time (`concurrency` at a time), so that the most urgent
 * task goes to the next free worker. Fast tasks are given in batches, so that no worker waits for a message.
 */
export function dispatch(workers: Iterable<WorkerProcess>, source: Source): void {
  const now = performance.now()
  const few = source.isByArrival ? BATCH_MS.fewByArrival : BATCH_MS.few
  const mostMs = source.batchMs ?? (source.ready < MANY ? few : BATCH_MS.many)
  const all = [...workers]
  // so that no task waits in one worker while another has nothing to do
  const areEnough = source.ready >= 2 * all.length
  const aheadMs = areEnough && source.isByArrival && !source.isShrinking ? AHEAD_MS : 0
  const free = all
    .map(worker => openingOf(worker, now, { mostMs, aheadMs }, source))
    .map(open => ({ ...open, room: Math.min(open.room, open.worker.work.tasks.room) }))
    .filter(({ room }) => room > 0)
  if (free.length > 1) free.sort((a, b) => a.worker.work.outstanding - b.worker.work.outstanding)
  for (const open of free) {
    const signal = source.signalFor(open.worker)
    if (signal === undefined) continue
    open.worker.signal(signal)
    open.room--
  }
  deal(free, source)
}

/** Deals refs in turn, so that no task waits in one worker while less urgent tasks run in another. */
function deal(free: readonly Open[], source: Source): void {
  const room = free.reduce((sum, open) => sum + open.room, 0)
  const refs = room === 0 ? [] : source.due(room)
  const hands = free.map(open => ({ ...open, refs: [] as Ref[] }))
  let dealt = 0
  while (dealt < refs.length)
    for (const hand of hands) {
      const ref = refs[dealt]
      if (ref === undefined || hand.refs.length >= hand.room) continue
      hand.refs.push(ref)
      dealt++
    }
  for (const { worker, batch, refs } of hands)
    for (let at = 0; at < refs.length; at += batch) source.give(worker, refs.slice(at, at + batch))
}

/** A worker whose tasks are slow, or whose oldest running task has become slow, is given at most one task beyond what it can run now. */
function openingOf(
  worker: WorkerProcess,
  now: number,
  { mostMs, aheadMs }: { readonly mostMs: number; readonly aheadMs: number },
  { isShrinking }: Source,
): Open {
  const { concurrency, following, runningSince = now } = worker.work
  const batchMs = concurrency === 1 ? mostMs : Math.min(mostMs, BATCH_MS.beside)
  const paceMs = worker.work.pace.ms ?? Number.POSITIVE_INFINITY
  const outstanding = worker.work.outstanding - following
  if (!worker.isOpen) return { worker, room: 0, batch: 1 }
  const taskMs = Math.max(paceMs, now - runningSince)
  if (taskMs > batchMs) {
    const ahead = taskMs <= aheadMs ? 1 : 0
    return { worker, room: concurrency + ahead - outstanding, batch: concurrency }
  }
  const batch = Math.max(concurrency, Math.min(MAX_BATCH, Math.floor(batchMs / paceMs)))
  if (isShrinking) return { worker, room: outstanding === 0 ? batch : 0, batch }
  const beside = concurrency - 1 // these run beside the first one of a batch, and do not wait
  const room = outstanding === 0 ? 2 * batch + beside : batch
  const settling = beside // as many tasks again may have ended and be settling
  return { worker, room: outstanding > batch + beside + settling ? 0 : room, batch }
}
