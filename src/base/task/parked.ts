import type { Ref } from './ref.js'

/**
 * What a parked task waits for: a worker that runs nothing else (`alone`), its turn, because it has crashed its process and
 * other tasks go first (`crashed`), a free slot of its name (`slot`), the end of a pause (`paused`), or a handler for its
 * name (`unknown-name`).
 */
export const PARK_REASONS = ['alone', 'crashed', 'slot', 'paused', 'unknown-name'] as const
export type ParkReason = (typeof PARK_REASONS)[number]
/** The reasons that end for all of their tasks at once, or for one kind of worker. The queue for a slot moves by itself. */
export type FeedReason = Exclude<ParkReason, 'slot'>

/** Returns a number for each reason. */
export function parkedByReason(countOf: (reason: ParkReason) => number): Record<ParkReason, number> {
  return {
    alone: countOf('alone'),
    crashed: countOf('crashed'),
    slot: countOf('slot'),
    paused: countOf('paused'),
    'unknown-name': countOf('unknown-name'),
  }
}

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
  /** Some of the refs. */
  readonly tasks: readonly Ref[]
}

/** Which of the tasks of a group are wanted: those from a place on. */
export interface ParkedPart extends Pick<ParkedGroup, 'reason' | 'name'> {
  readonly from: number
}
