import type { Ref } from '../../base/task/ref.js'
import type { NamedSlots } from '../../base/task/terms.js'
import type { Feed } from '../../engines/feed.js'
import type { CrashedTasks } from './crashed-tasks.js'

/** The source of tasks of one group of workers. */
export interface Lane {
  /** How many tasks could be taken now. It may be an estimate. */
  readonly ready: number
  /** The most urgent tasks, at most `limit`. */
  take(limit: number): readonly Ref[]
  /** Those that wait for a slot, as `Feed.take`. */
  takeFollowers(limit: number, slots: NamedSlots): readonly Ref[]
  /** Those that have crashed, if they are for workers of this group. */
  readonly crashed: CrashedTasks | undefined
}

/** All due tasks; and those that have crashed, if the workers run one task at a time. */
export function dueLane(feed: Feed, crashed: CrashedTasks, isSequential: () => boolean): Lane {
  return {
    get crashed() {
      return isSequential() ? crashed : undefined
    },
    get ready() {
      return feed.state.ready
    },
    take: limit => feed.take(limit),
    takeFollowers: (limit, slots) => feed.take(limit, slots),
  }
}

/**
 * The tasks that have to run alone. If several tasks were running when their process died, any of them may be to
 * blame: they become suspects, and no crash is counted. A suspect that crashes again takes no other task with it. Those that have
 * crashed run here, too, where the other workers run several tasks at a time.
 */
export function aloneLane(feed: Feed, crashed: CrashedTasks, isSequential: () => boolean): Lane {
  return {
    get crashed() {
      return isSequential() ? undefined : crashed
    },
    get ready() {
      return feed.state.parked.alone
    },
    take: limit => feed.take(limit, 'alone'),
    takeFollowers: () => [],
  }
}
