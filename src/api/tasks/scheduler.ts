import type { When } from '../../runtime/tasks/call-options.js'
import type { ScheduledTask } from '../../runtime/tasks/scheduled-task.js'

/** Schedules one task. Its arguments have the types of the task's function. */
export interface Scheduler<Args extends readonly unknown[]> {
  /**
   * Stores the task, to be run as soon as possible. Resolves once it is on disk, unless `sync` is false.
   *
   * @throws SpooldError ARGUMENTS_INVALID, QUEUE_UNKNOWN, DESTINATION_MISSING before anything is stored; then as `spool`
   */
  schedule(...args: Args): Promise<ScheduledTask>
  /**
   * Stores the task, to be run at this time or later.
   *
   * @param at a Date, epoch seconds, ISO 8601 text, or `+1h30m`; rounded up to whole seconds
   * @throws as `schedule`; SpooldError ARGUMENTS_INVALID if `at` is not a time
   */
  scheduleAt(at: When, ...args: Args): Promise<ScheduledTask>
}
