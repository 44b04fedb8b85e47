import type { Log } from '../log/log.js'
import { describePauses } from '../task/pause.js'
import type { Listeners } from './event-map.js'

/** The lines about what is kept from starting. Those of a quiet daemon are uWSGI's (core/master_utils.c). */
export function pauseLines(
  log: Log,
): Listeners<'pauses-changed' | 'pauses-ended' | 'quiet-began' | 'quiet-ended'> {
  return {
    'pauses-changed': ({ spool, pauses }) =>
      log.line(
        pauses.fault === undefined ? 'info' : 'error',
        `[spooler ${spool}] paused: ${describePauses(pauses)}`,
        { spool },
      ),
    'pauses-ended': ({ spool }) => log.line('info', `[spooler ${spool}] resumed`, { spool }),
    'quiet-began': ({ because }) =>
      log.dated('info', '*** PAUSE (press start to resume, if you do not have a joypad send SIGTSTP) ***', {
        because,
      }),
    'quiet-ended': ({ because }) =>
      log.dated('info', `*** (${because} received) resuming workers ***`, { because }),
  }
}
