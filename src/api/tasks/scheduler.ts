import type { When } from '../../runtime/tasks/call-options.js'
import type { ScheduledTask } from '../../runtime/tasks/scheduled-task.js'

/** Schedules one task; the types of the arguments are its function's. */
export interface Scheduler<Args extends readonly unknown[]> {
  /**
   * Stores it, to be run as soon as possible.
   *
   * @throws SpooldError ARGUMENTS_INVALID, QUEUE_UNKNOWN, DESTINATION_MISSING before anything is stored; then as `spool`
   */
  schedule(...args: Args): Promise<ScheduledTask>
  /** Stores it, to be run at this time or later. */
  scheduleAt(at: When, ...args: Args): Promise<ScheduledTask>
}
