import type { Metric } from './exposition.js'
import { ofDaemon, oneOf, seconds } from './metric-kinds.js'
import { SPOOL_METRICS } from './spool-metrics.js'
import { TASK_METRICS } from './task-metrics.js'
import { WORKER_METRICS } from './worker-metrics.js'

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

/**
 * All metrics that are published. A label is the directory of a spool, which is configured, or has a fixed list of values:
 * what strangers name (tasks, keys, files) is in no label. docs/monitoring.md lists them; a test compares.
 */
export const METRICS: readonly Metric[] = [
  ...DAEMON_METRICS,
  ...TASK_METRICS,
  ...WORKER_METRICS,
  ...SPOOL_METRICS,
]
