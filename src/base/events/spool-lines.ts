import type { Log } from '../log/log.js'
import { printable } from '../printable.js'
import { describePauses } from '../task/pause.js'
import { displayName } from '../task/ref.js'
import { durationText } from '../time-text.js'
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

/** The lines about what is kept from starting. Those of a quiet daemon are uWSGI's (core/master_utils.c). */
export function pauseLines(
  log: Log,
): Listeners<'pauses-changed' | 'pauses-ended' | 'quiet-began' | 'quiet-ended' | 'process-described'> {
  return {
    'pauses-changed': ({ spool, pauses }) =>
      log.line(
        pauses.fault === undefined ? 'info' : 'error',
        `[spooler ${spool}] paused: ${describePauses(pauses)}`,
        { spool },
      ),
    'pauses-ended': ({ spool }) => log.line('info', `[spooler ${spool}] resumed`, { spool }),
    'process-described': ({ spool, pid, state, running, signals, ahead, kernel }) => {
      const doing = [
        ...running.map(({ ref, forMs }) => `${printable(displayName(ref))} for ${durationText(forMs)}`),
        ...signals.map(number => `the handler of signal ${number}`),
      ]
      const text = doing.length === 0 ? 'runs nothing' : `runs ${doing.join(', ')}`
      log.line(
        'info',
        `[spooler ${spool} pid: ${pid}] ${state}: ${text}; ${ahead} ahead${kernel === null ? '' : `; ${kernel}`}`,
        { spool, worker: pid, state, running: running.map(({ ref }) => displayName(ref)), ahead, kernel },
      )
    },
    'quiet-began': ({ because }) =>
      log.dated('info', '*** PAUSE (press start to resume, if you do not have a joypad send SIGTSTP) ***', {
        because,
      }),
    'quiet-ended': ({ because }) =>
      log.dated('info', `*** (${because} received) resuming workers ***`, { because }),
  }
}
