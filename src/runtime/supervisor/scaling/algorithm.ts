import type { Histogram } from '../../../base/task/histogram.js'

/** @param state that of the last decision; undefined at the first */
export type Algorithm<State = unknown> = (snapshot: Snapshot, state: State | undefined) => Decision<State>

export interface Decision<State = unknown> {
  /** How many workers there should be. */
  readonly target: number
  /** What the algorithm is given with the next snapshot; it is not changed in place. */
  readonly state: State
  /** Why, in a few words, for events and people. */
  readonly reason: string
  /** Lines for the log, as uWSGI writes them. */
  readonly lines?: readonly string[]
  /** The algorithm is to be asked again so much later, if no tick comes before. */
  readonly askAgainMicros?: number
}

/** What an algorithm knows of the pool at a tick. Times are microseconds on one monotonic clock. */
export interface Snapshot {
  readonly options: ScalingOptions
  readonly nowMicros: number
  /** When the pool was opened. */
  readonly openedMicros: number
  /** In the order in which they were spawned. */
  readonly workers: readonly ScaledWorker[]
  /** Workers that are spawned later, because others failed: present, but neither busy nor idle. */
  readonly delayed: number
  /** How many workers there should be by now. Below `workers` + `delayed`: one is to go as soon as it is idle. */
  readonly target: number
  /** False: memory is short, the spool is paused, or the daemon is quiet. No answer may then grow the pool. */
  readonly canSpawn: boolean
  /** Tasks that could run now: due, neither parked nor held, and given to no worker. */
  readonly backlog: number
  /** Tasks that workers have, run or not. */
  readonly running: number
  /** Signals that wait for a worker, or that one has. */
  readonly signals: number
  /** Tasks that became claimable since the last decision. */
  readonly arrived: number
  /** Tasks that ended since the last decision. */
  readonly finished: number
  /** Of those that ended since the last decision: how long they ran, and had waited for it since they were due. */
  readonly runs: Histogram
  readonly waits: Histogram
}

/** What an algorithm knows of a worker. One that drains is not shown: it takes no more tasks. */
export interface ScaledWorker {
  /** The lowest number from 1 that no other worker of the pool had when it was spawned, as uWSGI numbers its workers. */
  readonly number: number
  /** It still loads: neither busy nor idle. */
  readonly isStarting: boolean
  /** It has no room for another task. */
  readonly isBusy: boolean
  /**
   * For how long workers of this number have been running anything, the current run and predecessors of the same
   * number included: it never decreases.
   */
  readonly busyMicros: number
}

/** uWSGI's units: `overload` and `idle` are ticks, but seconds in `busyness`. */
export interface ScalingOptions {
  readonly minimum: number
  readonly maximum: number
  /** How many workers are spawned at once; undefined: 1, and no limit for `latency`. */
  readonly step: number | undefined
  readonly overload: number
  /** For `spare2`. */
  readonly idle: number
  readonly busyness: BusynessOptions
  /** For `latency`: how long at most 5 % of the tasks may wait longer. */
  readonly waitMicros: number
  /** So many workers can start at once without slowing each other down. */
  readonly processors: number
}

interface BusynessOptions {
  /** Percent. */
  readonly min: number
  readonly max: number
  readonly multiplier: number
  readonly penalty: number
  readonly isVerbose: boolean
  readonly backlogAlert: number
  readonly backlogMultiplier: number
  readonly backlogStep: number
  /** Seconds. */
  readonly backlogNonzero: number
}

/** Between two decisions of an algorithm that is also asked between ticks. */
export const EAGER_PACE_MS = 20

/** How many workers of a pool are what. What is present is busy, idle, or coming. */
export interface Census {
  readonly present: number
  readonly busy: number
  readonly idle: number
  /** They load, or wait for their respawn: no load, as nothing more is needed than that they come; and none of them is to go. */
  readonly coming: number
  /** How many more there may be. */
  readonly room: number
}

export function census({ workers, delayed, options }: Snapshot): Census {
  let [busy, idle, coming] = [0, 0, delayed]
  for (const { isStarting, isBusy } of workers) {
    if (isStarting) coming++
    else if (isBusy) busy++
    else idle++
  }
  const present = workers.length + delayed
  return { present, busy, idle, coming, room: Math.max(0, options.maximum - present) }
}

/** As it is, and a worker that is to go is still to go. */
export function hold({ target }: Snapshot): number {
  return target
}

/** @param more how many are wanted; as many are spawned as the options allow at once */
export function grow(snapshot: Snapshot, more: number, step = snapshot.options.step ?? 1): number {
  const { present, room } = census(snapshot)
  return present + Math.min(more, room, step)
}

/** By one, as soon as one is idle: the next ticks ask for no second one until then. */
export function shrink(snapshot: Snapshot): number {
  return census(snapshot).present - 1
}
