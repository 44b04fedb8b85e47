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
}
