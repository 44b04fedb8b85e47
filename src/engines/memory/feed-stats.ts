import type { ParkReason } from '../../base/task/parked.js'
import type { SlotQueueStats } from '../../base/task/terms.js'
import type { Counts, FeedStats, PriorityStats } from '../feed.js'
import type { MemoryTask } from './spool.js'

/** @param nextDueMs when the next task that is not due will be, epoch ms */
export function statsOf(
  { ready: due, busy, waiting }: Counts,
  ready: Iterable<MemoryTask>,
  parkedTasks: ReadonlyMap<ParkReason, ReadonlySet<MemoryTask>>,
  slotQueues: readonly SlotQueueStats[],
  nextDueMs: number | undefined,
): FeedStats {
  const queued = slotQueues.reduce((sum, { parked }) => sum + parked, 0)
  const others = Array.from(parkedTasks, ([reason, { size }]) => [reason, size] as const)
  const parked = [...others, ['slot', queued] as const]
  const byPriority = new Map<number | null, number>()
  let oldest = Number.POSITIVE_INFINITY
  for (const { priority, dueAtMs } of ready) {
    byPriority.set(priority, (byPriority.get(priority) ?? 0) + 1)
    oldest = Math.min(oldest, dueAtMs)
  }
  return {
    ...{ ready: due, busy, waiting },
    ...{ unseen: 0, unseenSinceMs: null },
    ...{ later: waiting - parked.reduce((sum, [, size]) => sum + size, 0), unreadable: 0 },
    isWhole: true,
    tasks: due + busy + waiting,
    countedAtMs: null,
    priorities: [...byPriority].sort(([a], [b]) => ranked(a) - ranked(b)).map(asPriority),
    prioritiesLeftOut: 0,
    parked: Object.fromEntries(parked.filter(([, size]) => size > 0)),
    slotQueues,
    oldestDueMs: Number.isFinite(oldest) ? oldest : null,
    nextDueMs: nextDueMs ?? null,
    look: null,
  }
}

/** Tasks without a priority come last. */
export function ranked(priority: number | null): number {
  return priority ?? Number.MAX_SAFE_INTEGER
}

function asPriority([priority, due]: readonly [number | null, number]): PriorityStats {
  return { priority: priority === null ? null : String(priority), due }
}
