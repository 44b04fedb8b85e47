import type { SpoolSnapshot } from '../../runtime/stats/snapshot.js'
import type { Metric } from './exposition.js'
import { oneOf, perSpool, perSpoolBy, seconds } from './metric-kinds.js'

/** The directory, and how changes in it are noticed. */
export const SPOOL_METRICS: readonly Metric[] = [
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

/** Some file systems have no limit of inodes. */
function hasInodes(disk: SpoolSnapshot['disk']): disk is NonNullable<SpoolSnapshot['disk']> {
  return disk !== null && disk.totalInodes > 0
}
