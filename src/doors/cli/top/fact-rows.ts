import { scheduleText } from '../../../base/task/schedule.js'
import type { SpoolStatus } from '../status/spool-status.js'
import { cellsOf, SCHEDULE_COLUMNS, WORKER_COLUMNS } from './columns.js'
import type { Row } from './state.js'

/** The rows of what only daemons know. */
export function factRows(
  tab: 'workers' | 'schedules',
  statuses: readonly SpoolStatus[],
  nowMs: number,
): Row[] {
  const daemons = statuses.filter(status => status.source === 'daemon')
  if (tab === 'workers')
    return daemons.flatMap(({ daemon, processes }) =>
      processes.workers.map((worker, i) => ({
        id: `${daemon.pid} ${worker.pid} ${i}`,
        cells: cellsOf(WORKER_COLUMNS, worker, nowMs),
      })),
    )
  const once = new Map(
    daemons.flatMap(({ schedules }) =>
      schedules.map(each => [each.id, { ...each, ...scheduleText(each.schedule) }] as const),
    ),
  )
  const soonest = (nextAtMs: number | null) => nextAtMs ?? Number.POSITIVE_INFINITY
  return [...once]
    .sort(([, a], [, b]) => (soonest(a.nextAtMs) < soonest(b.nextAtMs) ? -1 : 1))
    .map(([id, each]) => ({ id, cells: cellsOf(SCHEDULE_COLUMNS, each, nowMs) }))
}
