import type { Snapshot } from './algorithm.js'

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
