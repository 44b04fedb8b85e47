import type { Ref } from './ref.js'
import type { ParkReason } from './report.js'

/** Why a task that is due may not run. */
export interface Parked {
  readonly reason: ParkReason
  /** For people. */
  readonly detail: string
}

/** Due tasks that may not run now, for one reason and, for `slot` and `unknown-name`, of one name. */
export interface ParkedGroup {
  readonly reason: ParkReason
  /** For people. */
  readonly name?: string
  /** How many tasks of the name may run at a time. */
  readonly slots?: number
  readonly count: number
  /** Some of them. */
  readonly tasks: readonly Ref[]
}

/** Which of the tasks of a group are wanted: those from a place on. */
export interface ParkedPart extends Pick<ParkedGroup, 'reason' | 'name'> {
  readonly from: number
}
