import { PARK_REASONS } from '../../base/task/report.js'
import type { FeedStats, PriorityStats } from '../feed.js'
import type { BacklogCount, CountedBacklog } from '../spool/index/backlog-count.js'
import type { Census } from '../spool/index/census.js'
import type { ScannerStats } from '../spool/index/scanner-stats.js'
import type { TaskIndex } from '../spool/index/task-index.js'
import { compareVersions } from '../spool/version-order.js'

/** Whoever may write to a spool makes its directories: more of them than this are only counted. */
const MOST_PRIORITIES = 100

/** What is known of a directory's tasks. */
export function directoryStats(
  index: TaskIndex,
  census: Census,
  backlog: BacklogCount,
  scanner: ScannerStats,
): FeedStats {
  const { busy, waiting, knowsAll } = index
  const nextAtMs = index.later.wakesAtMs
  const ready = Math.max(0, index.ready - census.surplus)
  const counted = knowsAll ? undefined : backlog.ask()
  const parked = PARK_REASONS.map(reason => [reason, index.parkedFor(reason)] as const)
  return {
    ready,
    busy,
    waiting,
    isWhole: knowsAll,
    tasks: knowsAll ? ready + busy + waiting : (counted?.total ?? null),
    countedAtMs: counted?.atMs ?? null,
    ...prioritiesOf((counted ?? census).byPrefix),
    parked: Object.fromEntries(parked.filter(([, count]) => count > 0)),
    slotQueues: index.tries.stats,
    oldestDueMs: census.oldestMs ?? null,
    nextDueMs: Number.isFinite(nextAtMs) ? nextAtMs : null,
    look: scanner,
  }
}

function prioritiesOf(
  byPrefix: CountedBacklog['byPrefix'],
): Pick<FeedStats, 'priorities' | 'prioritiesLeftOut'> {
  const all = [...byPrefix].filter(([prefix]) => prefix !== '')
  const listed = all.sort(([a], [b]) => compareVersions(a, b)).slice(0, MOST_PRIORITIES)
  const priorities: PriorityStats[] = listed.map(([prefix, due]) => ({ priority: prefix.slice(0, -1), due }))
  const none = byPrefix.get('')
  return {
    priorities: none === undefined ? priorities : [...priorities, { priority: null, due: none }],
    prioritiesLeftOut: all.length - listed.length,
  }
}
