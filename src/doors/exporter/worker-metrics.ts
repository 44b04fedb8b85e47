import type { SpoolSnapshot } from '../../runtime/stats/snapshot.js'
import type { Metric } from './exposition.js'
import { perSpool, perSpoolBy, totals } from './metric-kinds.js'

/** The processes that run tasks. */
export const WORKER_METRICS: readonly Metric[] = [
  perSpoolBy(
    'gauge',
    'spooler_workers',
    'Worker processes by state; those that are ready are idle or busy.',
    {
      label: 'state',
      values: workersByState,
    },
  ),
  perSpool(
    'gauge',
    'spooler_workers_wanted',
    'How many worker processes there should be.',
    spool => spool.processes.wanted,
  ),
  perSpool(
    'gauge',
    'spooler_workers_delayed',
    'Worker processes that are spawned later, because others failed.',
    spool => spool.processes.delayed,
  ),
  perSpool(
    'gauge',
    'spooler_workers_resident_memory_bytes',
    'Resident memory of all worker processes, without their interpreters.',
    ({ processes }) => processes.workers.reduce((sum, { rssBytes }) => sum + (rssBytes ?? 0), 0),
  ),
  ...totals({
    spooler_workers_spawned: ['spawned', 'Worker processes that were spawned.'],
    spooler_workers_crashed: ['crashes', 'Worker processes that died without being asked to.'],
    spooler_workers_overran: [
      'overran',
      'Worker processes that were killed because a run took longer than its limit.',
    ],
    spooler_workers_out_of_mercy: [
      'outOfMercy',
      'Worker processes that were killed because they did not stop in time.',
    ],
    spooler_workers_recycled: [
      'recycled',
      'Worker processes that were replaced because they had reached a limit.',
    ],
    spooler_interpreters_died: ['hostsDied', 'Interpreters of other languages that died.'],
  }),
]

function workersByState({ processes }: SpoolSnapshot): Record<string, number> {
  const counts = { starting: 0, idle: 0, busy: 0, draining: 0 }
  for (const { state, running } of processes.workers)
    if (state === 'ready') counts[running.length > 0 ? 'busy' : 'idle']++
    else if (state !== 'exited') counts[state]++
  return counts
}
