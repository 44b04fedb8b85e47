import type { WorkerProcess } from './worker-process.js'

/**
 * The workers that are to go first: those that have been idle longest. A busy one stays, and so does the last one that is
 * ready, as long as there is to be one at all: one that still loads goes in its place, because it may never be
 * ready.
 *
 * @param excess how many are to go @param target how many are to stay
 */
export function dispensable(
  workers: Iterable<WorkerProcess>,
  excess: number,
  target: number,
): readonly WorkerProcess[] {
  const all = [...workers]
  const ready = all.filter(({ state }) => state === 'ready')
  const idle = ready.filter(({ work }) => work.outstanding === 0)
  idle.sort((a, b) => a.work.activity.idleSince - b.work.activity.idleSince)
  const gone = idle.slice(0, Math.min(excess, target === 0 ? ready.length : ready.length - 1))
  if (gone.length === idle.length) return gone
  return [...gone, ...all.filter(({ state }) => state === 'starting').slice(0, excess - gone.length)]
}
