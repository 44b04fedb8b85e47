import type { Ref } from '../../../base/task/ref.js'
import type { Glance } from '../glance.js'
import type { TaskOrder } from '../task-order.js'

export interface TaskIndexOptions {
  readonly order: TaskOrder
  readonly frequencyMs: number
  /** The maximum number of due refs in memory; the next scan finds the rest. */
  readonly windowSize?: number
  /** The maximum number of parked refs; further ones wait for a frequency each time. */
  readonly parkedSize?: number
  /** How many names are kept of those that wait for a slot of the same name. */
  readonly namedPerSlots?: number
  /** Asked of tasks that waited for slots, and of others while rivals are likely. Default: all are at rest. */
  readonly glance?: (ref: Ref) => Glance
}
