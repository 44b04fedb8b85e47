import type { SpoolSnapshot } from '../../../runtime/stats/snapshot.js'

type TaskCounts = Pick<SpoolSnapshot['tasks'], 'waiting' | 'parked'>

export function sumOf(counts: Readonly<Partial<Record<string, number>>>): number {
  return Object.values(counts).reduce<number>((sum, count = 0) => sum + count, 0)
}

/** Returns how many tasks wait, without the parked ones, which `waiting` includes: most are later, a few may be unreadable. */
export function laterOf({ waiting, parked }: TaskCounts): number {
  return Math.max(0, waiting - sumOf(parked)) // the two counts may be a moment apart
}
