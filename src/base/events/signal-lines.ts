import type { LineLog } from '../log/log.js'
import { printable } from '../printable.js'
import { type SignalSchedule, scheduleText } from '../task/schedule.js'
import type { Listeners } from './event-map.js'
import { tellerOf } from './spool-lines.js'

/** The lines about signals and schedules (core/signal.c, core/cron.c, core/fsmon.c). */
export function signalLines(log: LineLog) {
  return {
    'signal-registered': ({ spool, number, target }) => {
      const named = target === '' ? 'default, any worker' : printable(target)
      log.line('info', `[uwsgi-signal] signum ${number} registered (wid: 0 modifier1: 0 target: ${named})`, {
        spool,
        signal: number,
        target,
      })
    },
    'signal-failed': ({ spool, pid, number, error }) =>
      log.dated('error', `error managing signal ${number} on spooler ${pid}: ${error}`, {
        spool,
        worker: pid,
        signal: number,
      }),
    'signal-unhandled': ({ number }) =>
      log.dated('error', `error managing signal ${number}: no handler is registered for it`, {
        signal: number,
      }),
    'signal-unroutable': ({ target, because }) =>
      log.line(
        'error',
        because === 'invalid'
          ? `invalid signal target: ${printable(target)}`
          : `^^^ UNSUPPORTED SIGNAL TARGET: ${printable(target)} ^^^`,
        { target },
      ),
    'signals-full': ({ number, limit }) =>
      log.line(
        'error',
        `could not deliver signal ${number}: *** SIGNAL QUEUE IS FULL: ${limit} signals wait ***`,
        {
          signal: number,
        },
      ),
  } satisfies Partial<Listeners>
}

export function periodicLines(log: LineLog) {
  const tell = tellerOf(log)
  return {
    'periodic-left-out': ({ spool, name, stored }) =>
      tell(
        'info',
        { spool },
        `periodic task ${printable(name)} is due, but ${printable(stored)} has not ended: it is left out this time`,
        { name, task: stored },
      ),
    'periodic-damaged': ({ spool, name }) =>
      tell(
        'warn',
        { spool },
        `what is remembered of the periodic task ${printable(name)} is damaged: it starts anew`,
        { name },
      ),
    'periodic-failed': ({ spool, error }) =>
      tell('error', { spool }, `periodic tasks are not scheduled, and tried again: ${error}`),
    'periodic-unplaced': ({ name, queue }) =>
      log.line(
        'error',
        `[spooler] periodic task ${printable(name)} is not scheduled: no spool is known for the queue ${printable(queue)}; give it one in spooler-queue = ${printable(queue)}=/var/spool/${printable(queue)}`,
        { name },
      ),
  } satisfies Partial<Listeners>
}

export function scheduleLines(log: LineLog) {
  const tell = tellerOf(log)
  return {
    'schedule-fired': schedule => {
      const line = firedLine(schedule)
      if (line !== undefined) log.dated('info', line, { signal: schedule.number })
    },
    'schedule-changed': ({ spool, schedule, verb, done }) => {
      const { what, when } = scheduleText(schedule)
      tell(
        'info',
        { spool },
        `${verb} of ${printable(what)} (${printable(when)}) by a control client: ${done}`,
      )
    },
    'schedules-full': ({ kind, limit }) =>
      log.line('error', `you can register max ${limit} schedules !!! this ${kind} is left out`, { kind }),
    'schedule-watch-failed': ({ path, error }) =>
      log.line('error', `[uwsgi-fsmon] unable to register monitor for "${printable(path)}": ${error}`, {
        path,
      }),
    'schedules-zoned': ({ zone, why }) =>
      log.line('info', `[uwsgi-cron] schedules count in ${zone}, ${why}`, { zone }),
    'schedules-led': ({ spool, isLeading }) =>
      tell(
        'info',
        { spool },
        isLeading
          ? 'this daemon fires the schedules'
          : 'another daemon fires the schedules; this one takes over when it is gone',
      ),
    'schedule-lease-failed': ({ spool, error }) =>
      tell('error', { spool }, `no schedule fires, because the lease is unavailable: ${error}`),
    'command-started': ({ command, pid }) =>
      log.dated('info', `[uwsgi-cron] running "${printable(command)}" (pid ${pid})`, { command, child: pid }),
    'command-ended': ({ command, pid, ranMs }) =>
      log.line(
        'info',
        `[uwsgi-cron] command "${printable(command)}" running with pid ${pid} exited after ${Math.round(ranMs / 1000)} second(s)`,
        { command, child: pid, ranMs },
      ),
    'command-overran': ({ command, pid }) =>
      log.line('error', `*** HARAKIRI ON CRON "${printable(command)}" (pid: ${pid}) ***`, {
        command,
        child: pid,
      }),
    'command-failed': ({ command, error }) =>
      log.line('error', `[uwsgi-cron] command "${printable(command)}" cannot be run: ${error}`, { command }),
  } satisfies Partial<Listeners>
}

/** uWSGI logs nothing about timers. */
function firedLine(schedule: SignalSchedule): string | undefined {
  switch (schedule.kind) {
    case 'timer':
      return undefined
    case 'cron':
      return `[uwsgi-cron] routing signal ${schedule.number}`
    case 'monitor':
      return `[uwsgi-fsmon] detected event on "${printable(schedule.path)}"`
    case 'touch':
      return `[uwsgi-touch-signal] raising ${schedule.number}`
  }
}
