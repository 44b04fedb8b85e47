import type { Log } from '../log/log.js'
import type { EventName, Listeners } from './event-map.js'

export type ScaledWorkerEvent = 'worker-cheaped' | 'worker-overweight' | 'worker-outlived'

/** The lines about how many processes there are. */
export function scalingLines(
  log: Log,
): Listeners<Extract<EventName, `pool-${string}` | `scaling-${string}` | ScaledWorkerEvent>> {
  return {
    'pool-scaled': ({ spool, algorithm, from, to, reason }) =>
      log.line(
        'info',
        `[spooler ${spool}] ${to} ${to === 1 ? 'process' : 'processes'}, not ${from}: ${reason}${algorithm === null ? '' : ` (${algorithm})`}`,
        { spool, algorithm, from, to, reason },
      ),
    'worker-cheaped': ({ spool, pid, idleMs }) =>
      log.line(
        'info',
        `[spooler ${spool} pid: ${pid}] cheaped ${idleMs === null ? 'while it loaded' : `after ${Math.round(idleMs) / 1000} s idle`}`,
        { spool, worker: pid },
      ),
    'worker-overweight': ({ spool, pid, number, kind, bytes }) =>
      log.line(
        'error',
        `*** EVIL RELOAD ON WORKER ${number} ${kind === 'rss' ? 'RSS' : 'ADDRESS SPACE'}: ${bytes} (pid: ${pid}) ***`,
        { spool, worker: pid, bytes },
      ),
    'worker-outlived': ({ spool, pid, number, livedMs }) =>
      log.line(
        'info',
        `worker ${number} lifetime reached, it was running for ${Math.floor(livedMs / 1000)} second(s)`,
        { spool, worker: pid },
      ),
    'scaling-logged': ({ spool, line }) => log.line('info', line, { spool }),
    'scaling-memory-short': ({ workers }) =>
      log.line('warn', `cheaper hard rss memory limit exceeded, cheap one of ${workers} workers`, {
        workers,
      }),
    'scaling-failed': ({ spool, error }) =>
      log.line(
        'error',
        `[spooler ${spool}] the number of processes stays as it is, because its algorithm failed: ${error}`,
        { spool },
      ),
  }
}
