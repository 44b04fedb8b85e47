import { durationText } from '../duration.js'
import type { Log } from '../log/log.js'
import { printable } from '../printable.js'
import type { EventName, Listeners } from './event-map.js'

/** The lines about the directory of a spool. */
export function spoolLines(log: Log): Listeners<Extract<EventName, `spool-${string}` | `watch-${string}`>> {
  return {
    'spool-opened': ({ spool, locks, because }) =>
      log.line(
        because === undefined ? 'info' : 'warn',
        locks === 'redis'
          ? `[spooler ${spool}] claims jobs of BullMQ`
          : locks === 'ofd'
            ? `[spooler ${spool}] claims with record locks (spooler-lock = ofd)`
            : `[spooler ${spool}] claims with lease files (spooler-lock = lockfile), which uWSGI does not see${because === undefined ? '' : `: ${because}`}`,
        { spool, locks },
      ),
    'spool-went-cheap': ({ spool }) => log.dated('info', `cheaping spooler ${spool} ...`, { spool }),
    'spool-missing': ({ spool, error }) =>
      log.line('error', `[spooler ${spool}] the directory cannot be listed, waiting for it: ${error}`, {
        spool,
      }),
    'spool-back': ({ spool }) => log.line('info', `[spooler ${spool}] the directory is back`, { spool }),
    'spool-unreachable': ({ spool, error }) =>
      log.line('error', `[spooler ${spool}] waiting for Redis: ${error}`, { spool }),
    'spool-reached': ({ spool }) => log.line('info', `[spooler ${spool}] Redis answers again`, { spool }),
    'spool-stalled': ({ spool, what }) =>
      log.line(
        'error',
        `[spooler ${spool}] the ${what} makes no progress; the service manager's watchdog is not fed`,
        { spool },
      ),
    'spool-resumed': ({ spool, what }) =>
      log.line('info', `[spooler ${spool}] the ${what} makes progress again`, { spool }),
    'spool-list-failed': ({ spool, prefix, error }) =>
      log.line('error', `[spooler ${spool}] ${printable(prefix)} cannot be listed: ${error}`, { spool }),
    'spool-unvisited': ({ spool, prefix }) =>
      log.line(
        'warn',
        `[spooler ${spool}] tasks in ${printable(prefix)} are not run: priorities need spooler-ordered = true`,
        { spool },
      ),
    'spool-astray': ({ spool, prefix }) =>
      log.line(
        'warn',
        `[spooler ${spool}] tasks in ${printable(prefix)} are never run: the name of a priority is a number; spoold fsck says how to move them`,
        { spool },
      ),
    'spool-task-locked': ({ spool, name, forMs, pid, command = '' }) =>
      log.line(
        'warn',
        `[spooler ${spool}] task ${printable(name)} has been locked for ${durationText(forMs)} by ${
          pid === undefined
            ? 'a process that cannot be seen from here'
            : `process ${pid} (${printable(command)})`
        }`,
        { spool, task: name, ...(pid === undefined ? {} : { holder: pid }) },
      ),
    'spool-swept': ({ spool, removed, published, givenBack }) =>
      log.line(
        'info',
        `[spooler ${spool}] swept leftovers of dead writers: ${removed} unfinished tasks removed, ${published} promised tasks published, ${givenBack} given back`,
        { spool, removed, published, givenBack },
      ),
    'spool-purged': ({ spool, removed }) =>
      log.line('info', `[spooler ${spool}] purged ${removed} dead letters`, { spool, removed }),
    'spool-cleanup-failed': ({ spool, error }) =>
      log.line('warn', `[spooler ${spool}] cleanup failed: ${error}`, {
        spool,
      }),
    'watch-lost': ({ spool, prefix, error, frequencyMs }) =>
      log.line(
        'warn',
        `[spooler ${spool}] no file-system events${prefix === '' ? '' : ` from ${printable(prefix)}`} (${error}), new tasks are found every ${frequencyMs / 1000} s`,
        { spool },
      ),
    'watch-back': ({ spool }) =>
      log.line('info', `[spooler ${spool}] file-system events are back`, { spool }),
  }
}
