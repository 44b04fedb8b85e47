import type { LineLog } from '../log/log.js'
import { displayName } from '../task/ref.js'
import { durationText } from '../time-text.js'
import type { Emitter } from './emitter.js'
import type { Listeners, LoggedEvent } from './event-map.js'
import { networkLines } from './network-lines.js'
import { periodicLines, scheduleLines, signalLines } from './signal-lines.js'
import { spoolLines } from './spool-lines.js'
import { stillRun, workerLines } from './worker-lines.js'

interface LogSubscriberOptions {
  /**
   * spooler-quiet: no lines about tasks that succeed. A reload may change it.
   *
   * @param path of a spool, or of a file in it
   */
  isQuiet(path: string): boolean
}

/**
 * The only place where events become text. Lines that uWSGI also has are the same to the byte (core/spooler.c, core/master*.c).
 * In a structured log each line has the name of its event, unless the line names a more specific one, and the error of that event
 * as a field.
 */
export function subscribeLog(events: Emitter, log: LineLog, { isQuiet }: LogSubscriberOptions): void {
  let context: { readonly event?: LoggedEvent; readonly error?: string } = {}
  const tagged: LineLog = {
    isStructured: log.isStructured,
    isPrecise: log.isPrecise,
    line: (level, text, fields) => log.line(level, text, { ...context, ...fields }),
    dated: (level, text, fields) => log.dated(level, text, { ...context, ...fields }),
    plain: (text, fields) => log.plain(text, { ...context, ...fields }),
  }
  const to = log.isStructured ? tagged : log
  const listeners: Listeners = {
    ...serviceLines(to),
    ...reloadLines(to),
    ...workerLines(to, isQuiet),
    ...spoolLines(to),
    ...networkLines(to, isQuiet),
    ...signalLines(to),
    ...scheduleLines(to),
    ...periodicLines(to),
  }
  const subscribe = <Name extends LoggedEvent>(name: Name): void => {
    const tell = listeners[name]
    events.on(name, payload => {
      if (log.isStructured) context = { event: name, ...('error' in payload ? { error: payload.error } : {}) }
      tell(payload)
    })
  }
  for (const name of Object.keys(listeners) as LoggedEvent[]) subscribe(name)
}

function serviceLines(log: LineLog) {
  return {
    'config-read': ({ file }) => log.line('info', `[uWSGI] getting INI configuration from ${file}`, { file }),
    'config-warning': ({ message }) => log.line('warn', message),
    'pidfile-written': ({ file }) => log.line('info', `writing pidfile to ${file}`, { file }),
    'identity-taken': ({ uid, gid, groups }) => {
      log.line('info', `setgid() to ${gid}`, { gid })
      for (const { gid: group, name } of groups)
        log.line('info', `set additional group ${group}${name === null ? '' : ` (${name})`}`, { gid: group })
      log.line('info', `setuid() to ${uid}`, { uid })
    },
    'directory-entered': ({ directory }) => log.line('info', `chdir() to ${directory}`, { directory }),
    'master-spawned': ({ pid }) => log.line('info', `spawned uWSGI master process (pid: ${pid})`),
    'daemon-started': ({ pid, version }) =>
      log.line('info', `*** spoold ${version} is running (pid: ${pid}) ***`, { version }),
    'notification-failed': ({ error }) => log.line('warn', `unable to notify the service manager: ${error}`),
    'daemon-idle': ({ idleMs }) =>
      log.line('info', `*** nothing to do for ${durationText(idleMs)}: stopping (die-on-idle) ***`),
    'start-failed': ({ error }) => log.line('error', `spoold: ${error}`),
    'stop-asked': ({ signal }) =>
      log.line('info', 'SIGINT/SIGTERM received...killing workers...', { signal }),
    'stop-waits': ({ running, mercyMs }) =>
      log.line(
        'warn',
        `${stillRun(running)} ${durationText(mercyMs)}; a second SIGINT or SIGTERM ends ${running.length === 1 ? 'it' : 'them'} at once`,
        {
          tasks: running.map(displayName),
          mercyMs,
        },
      ),
    'stop-forced': ({ signal }) =>
      log.line('warn', `${signal} received...killing everything now`, { signal }),
    // as uWSGI's (core/master_utils.c)
    'quiet-began': ({ because }) =>
      log.dated('info', '*** PAUSE (press start to resume, if you do not have a joypad send SIGTSTP) ***', {
        because,
      }),
    'quiet-ended': ({ because }) =>
      log.dated('info', `*** (${because} received) resuming workers ***`, { because }),
    'daemon-drained': ({ done, unfinished }) =>
      log.line('info', drainedText(done, unfinished), { done, ...unfinished }),
    'daemon-stopped': () => log.line('info', 'goodbye to uWSGI.'),
    'pidfile-removed': ({ kind }) => log.line('info', `VACUUM: ${kind} removed.`),
    'pidfile-left': ({ file, error }) =>
      log.line('warn', `VACUUM: ${file} cannot be removed: ${error}`, { file }),
  } satisfies Partial<Listeners>
}

function reloadLines(log: LineLog) {
  return {
    'file-touched': ({ file, asks }) =>
      log.dated(
        'info',
        `*** ${file} has been touched... ${asks === 'reload' ? 'grace them all' : 'spoolers reload'} !!! ***`,
        { file },
      ),
    'file-awaited': ({ file }) =>
      log.line('info', `unable to stat() ${file}, events will be triggered as soon as the file is created`, {
        file,
      }),
    'reload-began': ({ because }) => log.line('info', '...gracefully killing workers...', { because }),
    'reload-refused': ({ error }) =>
      log.line('error', `the reload is rejected, keeping the current configuration: ${error}`),
    'reload-done': () => log.line('info', 'the spoolers are reloaded'),
  } satisfies Partial<Listeners>
}

const UNFINISHED_TEXTS: Readonly<Record<string, string>> = {
  retry: 'to be retried',
  error: 'failed',
  crash: 'crashed',
  buried: 'buried',
  unsettled: 'ran, but could not be settled',
  ignore: 'ignored by all handlers',
  unreadable: 'could not be read',
  incomplete: 'incomplete',
  paused: 'paused',
  unknown: 'known to no handler',
}

/** How a `--drain` ended, for people. */
function drainedText(done: number, unfinished: Readonly<Record<string, number>>): string {
  const others = Object.entries(UNFINISHED_TEXTS).flatMap(([kind, text]) => {
    const count = unfinished[kind] ?? 0
    return count === 0 ? [] : [`${count} ${text}`]
  })
  return `drained: ${[`${done} done`, ...others].join(', ')}`
}
