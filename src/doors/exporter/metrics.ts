import { BURY_REASONS } from '../../base/task/outcome.js'
import { PARK_REASONS } from '../../base/task/parked.js'
import type { NamedStats, SpoolSnapshot } from '../../runtime/stats/snapshot.js'
import type { Metric } from './exposition.js'
import { histogram, ofDaemon, oneOf, perSpool, perSpoolBy, seconds, totals } from './metric-kinds.js'

const DAEMON_METRICS: readonly Metric[] = [
  {
    name: 'spooler_build',
    type: 'info',
    help: 'The version of spoold.',
    labels: ['version'],
    samples: ({ daemon }) => [{ labels: { version: daemon.version }, value: 1 }],
  },
  ofDaemon(
    'gauge',
    'spooler_start_time_seconds',
    'When the daemon started, in seconds since 1970.',
    ({ daemon }) => seconds(daemon.startedAtMs),
  ),
  {
    name: 'spooler_daemon_state',
    type: 'gauge',
    help: 'What the daemon does: 1 for its state, 0 for the others.',
    labels: ['state'],
    samples: ({ daemon }) =>
      Object.entries(oneOf(['starting', 'running', 'reloading', 'stopping', 'stopped'], daemon.state)).map(
        ([state, value]) => ({ labels: { state }, value }),
      ),
  },
  ofDaemon(
    'gauge',
    'spooler_master_resident_memory_bytes',
    'Resident memory of the master process.',
    ({ daemon }) => daemon.rssBytes,
  ),
  ofDaemon(
    'gauge',
    'spooler_network_connections',
    'Connections of network peers that are open.',
    ({ sockets }) => sockets[0]?.connections ?? 0,
  ),
  ofDaemon(
    'counter',
    'spooler_requests_stored',
    'Tasks that the daemon stored itself, for network peers and for handlers.',
    ({ daemon }) => daemon.stored,
  ),
  ofDaemon(
    'counter',
    'spooler_requests_refused',
    'Requests to store a task that the daemon refused.',
    ({ daemon }) => daemon.refused,
  ),
]

/** What waits, what runs, and how runs ended. */
const TASK_METRICS: readonly Metric[] = [
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
    'spooler_held_tasks',
    'Of the tasks whose time has not come, those that people hold.',
    ({ tasks }) => tasks.held,
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
  perSpoolBy('gauge', 'spooler_parked_tasks', 'Due tasks that wait for something other than time.', {
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

/** The processes that run tasks. */
const WORKER_METRICS: readonly Metric[] = [
  perSpoolBy(
    'gauge',
    'spooler_workers',
    'Worker processes by state; those that are ready are idle or busy.',
    {
      label: 'state',
      values: workersByState,
    },
  ),
  perSpool(
    'gauge',
    'spooler_workers_wanted',
    'How many worker processes there should be.',
    spool => spool.processes.wanted,
  ),
  perSpool(
    'gauge',
    'spooler_workers_delayed',
    'Worker processes that are spawned later, because others failed.',
    spool => spool.processes.delayed,
  ),
  perSpool(
    'gauge',
    'spooler_workers_resident_memory_bytes',
    'Resident memory of all worker processes, without their interpreters.',
    ({ processes }) => processes.workers.reduce((sum, { rssBytes }) => sum + (rssBytes ?? 0), 0),
  ),
  ...totals({
    spooler_workers_spawned: ['spawned', 'Worker processes that were spawned.'],
    spooler_workers_crashed: ['crashes', 'Worker processes that died without being asked to.'],
    spooler_workers_overran: [
      'overran',
      'Worker processes that were killed because a run took longer than its limit.',
    ],
    spooler_workers_out_of_mercy: [
      'outOfMercy',
      'Worker processes that were killed because they did not stop in time.',
    ],
    spooler_workers_recycled: [
      'recycled',
      'Worker processes that were replaced because they had reached a limit.',
    ],
    spooler_interpreters_died: ['hostsDied', 'Interpreters of other languages that died.'],
  }),
]

/** The directory, and how changes in it are noticed. */
const SPOOL_METRICS: readonly Metric[] = [
  perSpool(
    'counter',
    'spooler_scans',
    'How often the spool was scanned.',
    spool => spool.look?.looks ?? null,
  ),
  perSpool(
    'gauge',
    'spooler_last_scan_timestamp_seconds',
    'When the last scan ended, in seconds since 1970.',
    ({ look }) => (look === null || look.lastAtMs === null ? null : seconds(look.lastAtMs)),
  ),
  perSpool('gauge', 'spooler_last_scan_duration_seconds', 'How long the last scan took.', ({ look }) =>
    look === null || look.lastAtMs === null ? null : seconds(look.lastMs),
  ),
  perSpool(
    'gauge',
    'spooler_watched_directories',
    'Directories whose changes the system reports.',
    spool => spool.look?.watched ?? null,
  ),
  perSpool(
    'gauge',
    'spooler_watches_refused',
    'Directories whose changes the system refuses to report; they are scanned.',
    spool => spool.look?.refused ?? null,
  ),
  perSpool(
    'counter',
    'spooler_watches_lost',
    'How often the system stopped reporting changes of a directory.',
    spool => spool.totals.watchesLost,
  ),
  perSpool(
    'gauge',
    'spooler_disk_free_bytes',
    "Free space of the spool's file system.",
    spool => spool.disk?.freeBytes ?? null,
  ),
  perSpool(
    'gauge',
    'spooler_disk_size_bytes',
    "Size of the spool's file system.",
    spool => spool.disk?.totalBytes ?? null,
  ),
  perSpool('gauge', 'spooler_disk_free_inodes', "Free inodes of the spool's file system.", ({ disk }) =>
    hasInodes(disk) ? disk.freeInodes : null,
  ),
  perSpool('gauge', 'spooler_disk_inodes', "Inodes of the spool's file system.", ({ disk }) =>
    hasInodes(disk) ? disk.totalInodes : null,
  ),
  perSpoolBy('gauge', 'spooler_schedule_leadership', 'Whether schedules are fired here: 1 for what is so.', {
    label: 'state',
    values: ({ leadership }) =>
      leadership === null ? {} : oneOf(['asking', 'leading', 'waiting', 'stopped'], leadership),
  }),
]

/**
 * All metrics that are published. A label is the directory of a spool, which is configured, or has a bounded list of values: what
 * strangers name (tasks, keys, files) is in no label. docs/monitoring.md lists them; a test compares.
 */
export const METRICS: readonly Metric[] = [
  ...DAEMON_METRICS,
  ...TASK_METRICS,
  ...WORKER_METRICS,
  ...SPOOL_METRICS,
]

/** Returns values by the names of tasks: at most a hundred that handlers declare, and `other`. */
function byName(of: (stats: NamedStats) => number) {
  return ({ named }: SpoolSnapshot): Record<string, number> =>
    Object.fromEntries(named.map(stats => [stats.name === '' ? 'other' : stats.name, of(stats)]))
}

/** Returns all counts, with 0 for what does not occur, because a series that comes and goes has no rate. */
function counted(all: readonly string[], counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(all.map(each => [each, counts[each] ?? 0]))
}

/**
 * Returns the due tasks by priority; `none`: tasks without a priority. Only priorities 0 to 99 have a label of their own, because
 * whoever writes to the spool can make any number of priorities, and the number of series has to stay bounded over the years.
 */
function byPriority(priorities: SpoolSnapshot['tasks']['priorities']): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { priority, due } of priorities) {
    const label = priority === null ? 'none' : /^(0|[1-9][0-9]?)$/.test(priority) ? priority : 'other'
    counts[label] = (counts[label] ?? 0) + due
  }
  return counts
}

function workersByState({ processes }: SpoolSnapshot): Record<string, number> {
  const counts = { starting: 0, idle: 0, busy: 0, draining: 0 }
  for (const { state, running } of processes.workers)
    if (state === 'ready') counts[running.length > 0 ? 'busy' : 'idle']++
    else if (state !== 'exited') counts[state]++
  return counts
}

/** True unless the file system has no limit of inodes, as some have. */
function hasInodes(disk: SpoolSnapshot['disk']): disk is NonNullable<SpoolSnapshot['disk']> {
  return disk !== null && disk.totalInodes > 0
}
