import type { ScheduleSnapshot } from '../../stats/snapshot.js'
import { shortDuration } from '../render.js'
import type { SpoolStatus } from '../status/spool-status.js'
import { cellsOf, SCHEDULE_COLUMNS, type Scheduled, WORKER_COLUMNS } from './columns.js'
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
  const all = daemons.flatMap(({ schedules }) => schedules.map(scheduledOf))
  const once = new Map(all.map(each => [`${each.what} ${each.when}`, each]))
  const soonest = (nextAtMs: number | null) => nextAtMs ?? Number.POSITIVE_INFINITY
  return [...once]
    .sort(([, a], [, b]) => (soonest(a.nextAtMs) < soonest(b.nextAtMs) ? -1 : 1))
    .map(([id, each]) => ({ id, cells: cellsOf(SCHEDULE_COLUMNS, each, nowMs) }))
}

function scheduledOf({ schedule, nextAtMs }: ScheduleSnapshot): Scheduled {
  const cron = ({ expression, zone }: { expression: string; zone: string | null }) =>
    zone === null ? expression : `${expression} in ${zone}`
  switch (schedule.kind) {
    case 'periodic': {
      const { when, name } = schedule
      return {
        what: name,
        when: 'everyMs' in when ? `every ${shortDuration(when.everyMs)}` : cron(when),
        nextAtMs,
      }
    }
    case 'timer':
      return { what: `signal ${schedule.number}`, when: `every ${shortDuration(schedule.everyMs)}`, nextAtMs }
    case 'cron':
      return { what: `signal ${schedule.number}`, when: cron(schedule), nextAtMs }
    case 'command':
      return { what: schedule.command, when: cron(schedule), nextAtMs }
    default:
      return { what: `signal ${schedule.number}`, when: `changes of ${schedule.path}`, nextAtMs }
  }
}
