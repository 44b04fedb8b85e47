import { BURY_REASONS } from '../../base/task/outcome.js'
import { PARK_REASONS } from '../../base/task/parked.js'
import type { NamedStats, SpoolSnapshot } from '../../runtime/stats/snapshot.js'
import type { Metric } from './exposition.js'
import { histogram, perSpool, perSpoolBy, seconds, totals } from './metric-kinds.js'

/** What waits, what runs, how it ended. */
export const TASK_METRICS: readonly Metric[] = [
  perSpoolBy('gauge', 'spooler_tasks', 'Tasks: due, not looked at yet, running, or waiting.', {
    label: 'state',
    values: ({ tasks: { due, unseen, running, waiting } }) => ({ due, unseen, running, waiting }),
  }),
  perSpool(
    'gauge',
    'spooler_unseen_tasks',
    'Tasks that nobody has looked at yet: they may be due, or for later.',
    ({ tasks }) => tasks.unseen,
  ),
  perSpool(
    'gauge',
    'spooler_later_tasks',
    'Of the waiting tasks, those whose time has not come.',
    ({ tasks }) => tasks.later,
  ),
  perSpool(
    'gauge',
    'spooler_unreadable_tasks',
    'Of the waiting tasks, those that are no task, or that nobody can read, or begin.',
    ({ tasks }) => tasks.unreadable,
  ),
  perSpool(
    'gauge',
    'spooler_due_tasks_complete',
    '1: the tasks that are due are all counted; 0: only those in memory are, a lower bound.',
    ({ tasks }) => Number(tasks.isWhole),
  ),
  perSpoolBy('gauge', 'spooler_due_tasks', 'Due tasks by priority, with those that nobody has looked at.', {
    label: 'priority',
    values: ({ tasks }) => byPriority(tasks.priorities),
  }),
  perSpool(
    'gauge',
    'spooler_stored_tasks',
    'All tasks in the spool, as last counted.',
    spool => spool.tasks.stored,
  ),
  perSpoolBy('gauge', 'spooler_parked_tasks', 'Due tasks that wait for something else than time.', {
    label: 'reason',
    values: ({ tasks }) => counted(PARK_REASONS, tasks.parked),
  }),
  perSpool(
    'gauge',
    'spooler_oldest_due_age_seconds',
    'How long the oldest due task in memory has been due.',
    ({ tasks: { due, oldestDueMs } }, atMs) => {
      if (oldestDueMs === null) return due === 0 ? 0 : null
      return seconds(Math.max(0, atMs - oldestDueMs))
    },
  ),
  perSpoolBy('counter', 'spooler_runs', 'Runs that ended, by result.', {
    label: 'result',
    values: ({ totals: { done, retried, errors, ignored, buried, unsettled } }) => ({
      done,
      retried,
      error: errors,
      ignored,
      buried,
      unsettled,
    }),
  }),
  perSpoolBy(
    'counter',
    'spooler_named_runs_done',
    'Runs of named tasks that ended well; of very many names, the others together.',
    {
      label: 'task',
      values: byName(({ done }) => done),
    },
  ),
  perSpoolBy(
    'counter',
    'spooler_named_runs_failed',
    'Runs of named tasks that ended otherwise, or with their process.',
    {
      label: 'task',
      values: byName(({ retried, buried, killed }) => retried + buried + killed),
    },
  ),
  perSpoolBy('gauge', 'spooler_named_running', 'Runs of named tasks that have begun and not ended.', {
    label: 'task',
    values: byName(({ running }) => running),
  }),
  histogram('spooler_run_duration_seconds', 'How long runs took.', spool => spool.times.ran),
  histogram(
    'spooler_wait_duration_seconds',
    'How long tasks had been due when their run started.',
    spool => spool.times.waited,
  ),
  perSpool(
    'gauge',
    'spooler_longest_run_seconds',
    'How long the oldest run has been going on; 0: nothing runs.',
    ({ processes }, atMs) =>
      seconds(
        Math.max(
          0,
          ...processes.workers.flatMap(({ running }) => running.map(({ sinceMs }) => atMs - sinceMs)),
        ),
      ),
  ),
  perSpool(
    'gauge',
    'spooler_failed_tasks',
    'Tasks in the spool that have failed or are held.',
    spool => spool.records.count,
  ),
  perSpoolBy(
    'gauge',
    'spooler_dead_letters',
    'Dead letters by reason; of very many, only the first are counted.',
    {
      label: 'reason',
      values: ({ dead }) => counted(BURY_REASONS, dead.byReason),
    },
  ),
  ...totals({
    spooler_tasks_set_aside: ['setAside', 'Tasks that became dead letters without a run.'],
    spooler_dead_letters_purged: ['purged', 'Dead letters that were removed because of their age or number.'],
  }),
]

/** Names are those that handlers declare, at most a hundred, and `other`. */
function byName(of: (stats: NamedStats) => number) {
  return ({ named = [] }: SpoolSnapshot): Record<string, number> =>
    Object.fromEntries(named.map(stats => [stats.name === '' ? 'other' : stats.name, of(stats)]))
}

/** 0 for what does not occur: a series that comes and goes has no rate. */
function counted(all: readonly string[], counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(all.map(each => [each, counts[each] ?? 0]))
}

/**
 * Whoever writes to the spool makes priorities, so only 0 to 99 have a label of their own, also over the years. `none`: tasks
 * without a priority.
 */
function byPriority(priorities: SpoolSnapshot['tasks']['priorities']): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { priority, due } of priorities) {
    const label = priority === null ? 'none' : /^(0|[1-9][0-9]?)$/.test(priority) ? priority : 'other'
    counts[label] = (counts[label] ?? 0) + due
  }
  return counts
}
