import type { SpoolSnapshot } from '../../../runtime/stats/snapshot.js'

type TaskCounts = Pick<SpoolSnapshot['tasks'], 'waiting' | 'parked'>

export function sumOf(counts: Readonly<Partial<Record<string, number>>>): number {
  return Object.values(counts).reduce<number>((sum, count = 0) => sum + count, 0)
}

/** How many wait for their time. The daemon counts those that are parked among those that wait. */
export function laterOf({ waiting, parked }: TaskCounts): number {
  return Math.max(0, waiting - sumOf(parked)) // the two may be a moment apart
}
