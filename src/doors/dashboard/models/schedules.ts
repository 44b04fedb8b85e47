import { scheduleText } from '../../../base/task/schedule.js'
import type { ScheduleSnapshot } from '../../../runtime/stats/snapshot.js'

/** What fires by itself. */
export interface ScheduleRow
  extends Pick<ScheduleSnapshot, 'id' | 'origin' | 'spool' | 'nextAtMs' | 'pausedSinceMs'> {
  /** What happens. */
  readonly what: string
  readonly when: string
}

/** The next one first; those without a time last. */
export function scheduleRows(schedules: readonly ScheduleSnapshot[]): ScheduleRow[] {
  const rows = schedules.map(({ schedule, ...row }) => ({
    ...row,
    ...scheduleText(schedule),
  }))
  const time = ({ nextAtMs }: ScheduleRow) => nextAtMs ?? Number.POSITIVE_INFINITY
  return rows.sort((a, b) => time(a) - time(b) || (a.what < b.what ? -1 : 1))
}
