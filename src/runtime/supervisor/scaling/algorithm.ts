import type { Histogram } from '../../../base/task/histogram.js'

/** @param state the state that the last decision returned; undefined at the first decision */
export type Algorithm<State = unknown> = (snapshot: Snapshot, state: State | undefined) => Decision<State>

export interface Decision<State = unknown> {
  /** How many workers there should be. */
  readonly target: number
  /** What the algorithm is given with the next snapshot; it is not changed in place. */
  readonly state: State
  /** Why, in a few words; for events and people. */
  readonly reason: string
  /** Lines for the log, as uWSGI writes them. */
  readonly lines?: readonly string[]
  /** The algorithm wants to be asked again after this time, if no tick comes before. */
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
  /** The number of workers that are spawned later, because others failed: present, but neither busy nor idle. */
  readonly delayed: number
  /** How many workers there should be now. If less than `workers` and `delayed` together, a worker goes as soon as it is idle. */
  readonly target: number
  /** False: memory is short, the spool is paused, or the daemon is quiet. No answer may then grow the pool. */
  readonly canSpawn: boolean
  /** The number of tasks that could run now: due, neither parked nor held, and given to no worker. */
  readonly backlog: number
  /** The number of tasks that workers have, whether they run or not. */
  readonly running: number
  /** The number of signals that wait for a worker or run in one. */
  readonly signals: number
  /** The number of tasks that became claimable since the last decision. */
  readonly arrived: number
  /** The number of tasks that ended since the last decision. */
  readonly finished: number
  /** How long the tasks that ended since the last decision ran (`runs`), and had waited since they were due (`waits`). */
  readonly runs: Histogram
  readonly waits: Histogram
}

/** What an algorithm knows of a worker. Draining workers are left out, because they take no more tasks. */
export interface ScaledWorker {
  /** The lowest number from 1 that no other worker of the pool had when it was spawned, as uWSGI numbers its workers. */
  readonly number: number
  /** The worker still loads: it is neither busy nor idle. */
  readonly isStarting: boolean
  /** The worker has no room for another task. */
  readonly isBusy: boolean
  /**
   * For how long workers of this number have been running anything, including the current run and predecessors of the same number.
   * Never decreases.
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
  /** For `latency`: the goal; at most 5 % of the tasks may wait longer. */
  readonly waitMicros: number
  /** How many workers can start at once without slowing each other down. */
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

/** The shortest time between two decisions of an eager algorithm, which is also asked between ticks. */
export const EAGER_PACE_MS = 20

/** The workers of a pool by state: each present one is busy, idle, or coming. */
export interface Census {
  readonly present: number
  readonly busy: number
  readonly idle: number
  /** Workers that load or wait for their respawn: neither busy nor idle, so they cause no growth, and none of them goes. */
  readonly coming: number
  /** How many more workers there may be. */
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

/** The same number as before. A worker that is to go still goes. */
export function hold({ target }: Snapshot): number {
  return target
}

/** @param more how many more are wanted; the options limit how many are spawned at once */
export function grow(snapshot: Snapshot, more: number, step = snapshot.options.step ?? 1): number {
  const { present, room } = census(snapshot)
  return present + Math.min(more, room, step)
}

/** One worker fewer. It goes as soon as one is idle; until then, further ticks ask for no second one. */
export function shrink(snapshot: Snapshot): number {
  return census(snapshot).present - 1
}
