import { type Sight, seenPauses, seenSchedule } from '../../formats/protocol/sight.js'
import type { DaemonSnapshot, ScheduleSnapshot } from './snapshot.js'

/** Returns the snapshot without what this reader may not see. */
export function seenSnapshot(snapshot: DaemonSnapshot, sight: Sight): DaemonSnapshot {
  return {
    ...snapshot,
    spools: snapshot.spools.map(spool => ({ ...spool, paused: seenPauses(spool.paused, sight) })),
    schedules: seenSchedules(snapshot.schedules, sight),
  }
}

function seenSchedules(schedules: readonly ScheduleSnapshot[], sight: Sight): ScheduleSnapshot[] {
  return schedules.map(each => ({ ...each, schedule: seenSchedule(each.schedule, sight) }))
}
