import { durationText } from '../duration.js'
import type { Log } from '../log/log.js'
import { printable } from '../printable.js'
import { describePauses } from '../task/pause.js'
import { displayName } from '../task/ref.js'
import type { Listeners } from './event-map.js'

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
