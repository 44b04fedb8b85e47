import { counted } from '../counted.js'
import type { Level, LineLog } from '../log/log.js'
import { printable } from '../printable.js'
import { describePauses } from '../task/pause.js'
import { displayName, type TaskName } from '../task/ref.js'
import { nameOf } from '../task/report.js'
import { type SignalSchedule, scheduleText } from '../task/schedule.js'
import { durationText } from '../time-text.js'
import type { Listeners, RecycleReason } from './event-map.js'
import { lineName, PrintedLines, prefixOf, type Speaker, TaskLines, taskFields } from './task-lines.js'

/**
 * Returns the functions that log each event. Lines that uWSGI also has are the same to the byte (core/spooler.c, core/master*.c,
 * core/socket.c, core/signal.c, core/cron.c, core/fsmon.c).
 *
 * @param isQuiet true if the spool at this path, or around this file, leaves no lines about tasks that succeed
 */
export function logLines(log: LineLog, isQuiet: (path: string) => boolean): Listeners {
  /** Writes a line that begins with its subject. */
  const tell = (level: Level, speaker: Speaker, text: string, fields?: object) => {
    const { spool, pid } = speaker
    const worker = pid === undefined ? {} : { worker: pid }
    log.line(level, `${prefixOf(speaker)} ${text}`, { spool, ...worker, ...fields })
  }
  const dated = (level: Level, text: string, fields: object) => log.line(level, text, fields, 'dated')
  const complain = createComplainer(log)
  const tasks = new TaskLines(log, isQuiet)
  const printed = new PrintedLines(log)
  return {
    // the daemon
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
    'start-waits': ({ spool, ready, spools, afterMs }) =>
      log.line(
        'warn',
        `the start takes longer than ${durationText(afterMs)}: ${ready} of ${counted(spools, 'spool')} ready, waiting for ${spool}`,
        { ready, spools },
      ),
    'start-failed': ({ error }) => log.line('error', `spoold: ${error}`),
    'stop-asked': ({ signal }) =>
      log.line('info', 'SIGINT/SIGTERM received...killing workers...', { signal }),
    'stop-waits': ({ running, mercyMs }) =>
      log.line(
        'warn',
        `${stillRun(running)} ${durationText(mercyMs)}; a second SIGINT or SIGTERM ends ${running.length === 1 ? 'it' : 'them'} at once`,
        { tasks: running.map(displayName), mercyMs },
      ),
    'stop-forced': ({ signal }) =>
      log.line('warn', `${signal} received...killing everything now`, { signal }),
    // the same lines as uWSGI's (core/master_utils.c)
    'quiet-began': ({ because }) =>
      dated('info', '*** PAUSE (press start to resume, if you do not have a joypad send SIGTSTP) ***', {
        because,
      }),
    'quiet-ended': ({ because }) =>
      dated('info', `*** (${because} received) resuming workers ***`, { because }),
    'daemon-drained': ({ done, unfinished }) =>
      log.line('info', drainedText(done, unfinished), { done, ...unfinished }),
    'daemon-stopped': () => log.line('info', 'goodbye to uWSGI.'),
    'pidfile-removed': ({ kind }) => log.line('info', `VACUUM: ${kind} removed.`),
    'pidfile-left': ({ file, error }) =>
      log.line('warn', `VACUUM: ${file} cannot be removed: ${error}`, { file }),

    // reloads
    'file-touched': ({ file, asks }) =>
      dated(
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

    // the processes of spools
    'worker-spawned': ({ spool, pid }) =>
      log.line('info', `spawned the uWSGI spooler on dir ${spool} with pid ${pid}`, { spool, worker: pid }),
    'worker-loading': ({ spool, pid, what, afterMs }) =>
      tell(
        'warn',
        { spool, pid },
        `${what} is still loading (${afterMs / 1000} s); a top-level await, or an import that waits?`,
      ),
    'worker-unloadable': ({ spool, error }) => tell('error', { spool }, error),
    'workers-kept': ({ spool, kept, error }) =>
      tell(
        'error',
        { spool },
        `${counted(kept, 'process stays', 'processes stay')} as before the reload, because no other can start; fix that and reload again: ${error}`,
      ),
    'worker-fork-failed': ({ spool, error }) =>
      tell('error', { spool }, `cannot fork a process, retrying later: ${error}`),
    'worker-respawn-delayed': ({ spool, delayMs }) =>
      tell('warn', { spool }, `workers keep failing, next spawn in ${Math.round(delayMs) / 1000} s`),

    'worker-died': ({ spool, pid, code, signal, running, isReplaced }) => {
      printed.exited(pid)
      const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
      const fields = { code, signal, tasks: running.map(displayName) }
      tell('error', { spool, pid }, `the process ${how}${itHad(running)}`, fields)
      if (isReplaced) log.line('error', 'OOOPS the spooler is no more...trying respawn...', { spool })
    },
    'worker-recycling': ({ spool, pid, because }) =>
      tell('info', { spool, pid }, `${reached(because)} recycling ...`),
    'worker-faulted': ({ spool, pid, error }) =>
      tell('error', { spool, pid }, `uncaught exception, replacing the process: ${error}`),
    'worker-unfit': ({ spool, pid, error }) =>
      tell('error', { spool, pid }, `the process cannot continue, replacing it: ${error}`),
    'host-died': ({ spool, pid, detail }) => tell('error', { spool, pid }, `${detail}, replacing it`),
    'worker-overran': ({ spool, pid }) =>
      log.line('error', `*** HARAKIRI ON THE SPOOLER (pid: ${pid}) ***`, { spool, worker: pid }),
    'tasks-overran': ({ spool, pid, names, isOwn }) => {
      const limit = isOwn ? 'the deadline that it had set' : 'spooler-harakiri'
      for (const name of names)
        tell('error', { spool, pid }, `task ${lineName(name)} overran ${limit}`, taskFields(name))
    },
    'worker-cancelled': ({ spool, pid, names }) =>
      tell(
        'warn',
        { spool, pid },
        `${names.length === 1 ? 'task' : 'tasks'} ${named(names)} ${names.length === 1 ? 'does' : 'do'} not end after being cancelled: killing the process`,
        { tasks: names.map(displayName) },
      ),
    'worker-out-of-mercy': ({ spool, pid, running }) =>
      dated('warn', `spooler 1 (pid: ${pid}) is taking too much time to die...NO MERCY !!!`, {
        spool,
        worker: pid,
        tasks: running.map(displayName),
      }),
    'marks-left': ({ spool, names, error }) =>
      tell(
        'warn',
        { spool },
        `interrupted runs count as crashes, because their marks cannot be cleared: ${named(names)}: ${error}`,
        { tasks: names.map(displayName) },
      ),
    'worker-stopping': ({ spool, pid }) =>
      log.line('info', `killing the spooler with pid ${pid}`, { spool, worker: pid }),
    'worker-stopped': ({ spool, pid }) => {
      printed.exited(pid)
      log.line('info', `spooler (pid: ${pid}) annihilated`, { spool, worker: pid })
    },

    'task-started': ({ spool, pid, name }) => tasks.managing({ spool, pid }, name),
    'tasks-reported': ({ spool, pid, done, reports, known }) => {
      for (const name of done) printed.ended(pid, name)
      for (const report of reports) {
        printed.ended(pid, nameOf(report))
        tasks.reported({ spool, pid }, report, known.has(nameOf(report)))
      }
    },
    'task-cancelling': ({ spool, pid, name }) =>
      tell('warn', { spool, pid }, `task ${lineName(name)} is cancelled`, taskFields(name)),
    'task-logged': ({ spool, pid, name, message, stream }) =>
      tell('info', { spool, pid }, `${printable(name)}: ${message}`, { task: name, stream }),
    'task-printed': piece => printed.printed(piece),

    'pool-scaled': ({ spool, algorithm, from, to, reason }) =>
      tell(
        'info',
        { spool },
        `${counted(to, 'process', 'processes')}, not ${from}: ${reason}${algorithm === null ? '' : ` (${algorithm})`}`,
        { algorithm, from, to, reason },
      ),
    'worker-cheaped': ({ spool, pid, idleMs }) =>
      tell(
        'info',
        { spool, pid },
        `cheaped ${idleMs === null ? 'while it loaded' : `after ${Math.round(idleMs) / 1000} s idle`}`,
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
      tell(
        'error',
        { spool },
        `the number of processes stays as it is, because its algorithm failed: ${error}`,
      ),

    // spools
    'spool-opened': ({ spool, locks, because }) =>
      tell(because === undefined ? 'info' : 'warn', { spool }, claimText(locks, because), { locks }),
    'spool-went-cheap': ({ spool }) => dated('info', `cheaping spooler ${spool} ...`, { spool }),
    'spool-missing': ({ spool, error }) =>
      tell('error', { spool }, `the directory cannot be listed, waiting for it: ${error}`),
    'spool-back': ({ spool }) => tell('info', { spool }, 'the directory is back'),
    'spool-unreachable': ({ spool, error }) => tell('error', { spool }, `waiting for Redis: ${error}`),
    'spool-reached': ({ spool }) => tell('info', { spool }, 'Redis answers again'),
    'spool-stalled': ({ spool, what }) =>
      tell('error', { spool }, `the ${what} makes no progress; the service manager's watchdog is not fed`),
    'spool-resumed': ({ spool, what }) => tell('info', { spool }, `the ${what} makes progress again`),
    'spool-list-failed': ({ spool, prefix, error }) =>
      tell('error', { spool }, `${printable(prefix)} cannot be listed: ${error}`),
    'spool-list-back': ({ spool, prefix }) => tell('info', { spool }, `${printable(prefix)} is listed again`),
    'spool-unvisited': ({ spool, prefix }) =>
      tell(
        'warn',
        { spool },
        `tasks in ${printable(prefix)} are not run: priorities need spooler-ordered = true`,
      ),
    'spool-astray': ({ spool, prefix }) =>
      tell(
        'warn',
        { spool },
        `tasks in ${printable(prefix)} are never run: the name of a priority is a number; spoold fsck says how to move them`,
      ),
    'spool-task-locked': ({ spool, name, forMs, pid, command = '' }) => {
      const who =
        pid === undefined
          ? 'a process that cannot be seen from here'
          : `process ${pid} (${printable(command)})`
      tell(
        'warn',
        { spool },
        `task ${printable(name)} has been locked for ${durationText(forMs)} by ${who}`,
        { task: name, ...(pid === undefined ? {} : { holder: pid }) },
      )
    },
    'spool-swept': ({ spool, removed, published, givenBack }) =>
      tell(
        'info',
        { spool },
        `swept leftovers of dead writers: ${counted(removed, 'unfinished task')} removed, ${counted(published, 'promised task')} published, ${givenBack} given back`,
        { removed, published, givenBack },
      ),
    'spool-purged': ({ spool, removed }) =>
      tell('info', { spool }, `purged ${counted(removed, 'dead letter')}`, { removed }),
    'spool-cleanup-failed': ({ spool, error }) => tell('warn', { spool }, `cleanup failed: ${error}`),
    'watch-lost': ({ spool, of, prefix, error, frequencyMs }) =>
      tell(
        'warn',
        { spool },
        `no ${of} events${prefix === '' ? '' : ` from ${printable(prefix)}`} (${error}), new tasks are found every ${frequencyMs / 1000} s`,
      ),
    'watch-back': ({ spool, of }) => tell('info', { spool }, `${of} events are back`),
    'pauses-changed': ({ spool, pauses }) =>
      tell(pauses.fault === undefined ? 'info' : 'error', { spool }, `paused: ${describePauses(pauses)}`),
    'pauses-ended': ({ spool }) => tell('info', { spool }, 'resumed'),
    'process-described': ({ spool, pid, state, running, signals, ahead, kernel }) => {
      const doing = [
        ...running.map(({ ref, forMs }) => `${printable(displayName(ref))} for ${durationText(forMs)}`),
        ...signals.map(number => `the handler of signal ${number}`),
      ]
      const text = doing.length === 0 ? 'runs nothing' : `runs ${doing.join(', ')}`
      tell(
        'info',
        { spool, pid },
        `${state}: ${text}; ${ahead} ahead${kernel === null ? '' : `; ${kernel}`}`,
        { state, running: running.map(({ ref }) => displayName(ref)), ahead, kernel },
      )
    },

    // sockets and peers
    'socket-opened': ({ number, how, family, address, isAutoPort }) => {
      const port = isAutoPort ? ' (port auto-assigned)' : ''
      const verb = how === 'bound' ? 'bound to' : 'inherited'
      log.line('info', `uwsgi socket ${number} ${verb} ${family} address ${printable(address)}${port}`, {
        address,
      })
    },
    'socket-removed': ({ file }) => log.line('info', `VACUUM: unix socket ${file} removed.`),
    'socket-left': ({ file, error }) =>
      log.line('warn', `VACUUM: unix socket ${file} cannot be removed: ${error}`, { file }),
    'control-unavailable': ({ place, error }) =>
      log.line('warn', `[spooler ${printable(place)}] no control socket: ${error}`, { place }),
    'fifo-ignored': ({ path, why }) =>
      log.line('warn', `[spooler] master fifo ${printable(path)}: ignored: ${printable(why)}`, { path }),
    'fifo-unavailable': ({ path, why }) =>
      log.line(
        'warn',
        `[spooler] master fifo ${printable(path)}: cannot be opened again: ${printable(why)}`,
        { path },
      ),
    'request-stored': ({ path, bytes }) => {
      if (!isQuiet(path))
        log.line('info', `[spooler] written ${bytes} bytes to file ${printable(path)}`, { path })
    },
    'request-refused': ({ peer, error }) => complain(`[uwsgi-spooler] ${error} (from ${peer})`, peer),
    'exporter-listening': ({ what, address }) => log.line('info', listeningLine(what, address), { address }),
    'exporter-alarm': ({ message }) => log.line('warn', `[spooler exporter] ${printable(message)}`),
    'exporter-trouble': ({ message }) => log.line('warn', `[spooler exporter] ${printable(message)}`),
    'dashboard-listening': ({ address }) =>
      log.line('info', listeningLine('dashboard', address), { address }),
    'dashboard-trouble': ({ message }) => log.line('warn', `[spooler dashboard] ${printable(message)}`),
    'modifier-unavailable': ({ peer, modifier1 }) =>
      complain(`-- unavailable modifier requested: ${modifier1} -- (from ${peer})`, peer),
    'peer-turned-away': ({ peer, because }) => complain(`${peer} was turned away: ${because}`, peer),

    // signals and schedules
    'signal-registered': ({ spool, number, target }) => {
      const named = target === '' ? 'default, any worker' : printable(target)
      log.line('info', `[uwsgi-signal] signum ${number} registered (wid: 0 modifier1: 0 target: ${named})`, {
        spool,
        signal: number,
        target,
      })
    },
    'signal-failed': ({ spool, pid, number, error }) =>
      dated('error', `error managing signal ${number} on spooler ${pid}: ${error}`, {
        spool,
        worker: pid,
        signal: number,
      }),
    'signal-unhandled': ({ number }) =>
      dated('error', `error managing signal ${number}: no handler is registered for it`, {
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
        { signal: number },
      ),
    'schedule-fired': schedule => {
      const line = firedLine(schedule)
      if (line !== undefined) dated('info', line, { signal: schedule.number })
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
      log.line('info', `[uwsgi-cron] the time zone of schedules is ${zone}, ${why}`, { zone }),
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
      dated('info', `[uwsgi-cron] running "${printable(command)}" (pid ${pid})`, { command, child: pid }),
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

    // periodic tasks
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
        `the state of the periodic task ${printable(name)} is damaged: it starts afresh`,
        { name },
      ),
    'periodic-failed': ({ spool, error }) =>
      tell('error', { spool }, `periodic tasks cannot be scheduled, and are tried again: ${error}`),
    'periodic-unplaced': ({ name, queue }) =>
      log.line(
        'error',
        `[spooler] periodic task ${printable(name)} is not scheduled: no spool is known for the queue ${printable(queue)}; give it one in spooler-queue = ${printable(queue)}=/var/spool/${printable(queue)}`,
        { name },
      ),
  }
}

/** Returns what a worker has reached. The text for tasks is uWSGI's of its spooler, the others are uWSGI's of its workers. */
function reached(because: RecycleReason): string {
  if (because.kind === 'tasks') return `maximum number of tasks reached (${because.limit})`
  return `reload-on-${because.kind} limit reached (${because.bytes} >= ${because.limit})`
}

function itHad(running: readonly TaskName[]): string {
  return running.length === 0 ? '' : `; it had ${named(running)}`
}

function stillRun(running: readonly TaskName[]): string {
  return running.length === 1
    ? `1 task still runs (${named(running)}), it has`
    : `${running.length} tasks still run (${named(running)}), they have`
}

function named(tasks: readonly TaskName[]): string {
  const names = tasks.slice(0, 3).map(name => printable(displayName(name)))
  return `${names.join(', ')}${tasks.length > 3 ? ', …' : ''}`
}

function claimText(locks: string, because: string | undefined): string {
  if (locks === 'redis') return 'claims jobs of BullMQ'
  if (locks === 'ofd') return 'claims with record locks (spooler-lock = ofd)'
  const why = because === undefined ? '' : `: ${because}`
  return `claims with lease files (spooler-lock = lockfile), which uWSGI does not see${why}`
}

/** Returns uWSGI's line without the descriptor, which means nothing here, because another process has it (core/master.c). */
function listeningLine(what: string, address: string): string {
  const name = printable(address)
  return `*** ${what === 'stats' ? 'Stats server' : what} enabled on ${name} ***`
}

/** The most complaints about peers per period, so that peers cannot fill the disk with our log. */
const COMPLAINTS = 20
const PERIOD_MS = 10_000
const COMPLAINT_LENGTH = 400

/** Returns a function that limits the lines per period. The first line after a period says how many were left out. */
function createComplainer(log: LineLog): (text: string, peer: string) => void {
  let periodEndsMs = 0
  let count = 0
  return (text, peer) => {
    const nowMs = performance.now()
    if (nowMs >= periodEndsMs) {
      if (count > COMPLAINTS)
        log.line('warn', `${count - COMPLAINTS} more refused requests or peers were not logged`)
      periodEndsMs = nowMs + PERIOD_MS
      count = 0
    }
    if (++count <= COMPLAINTS) log.line('warn', printable(text.slice(0, COMPLAINT_LENGTH)), { peer })
  }
}

/** Returns uWSGI's line about a schedule that fired; undefined for timers, of which uWSGI logs nothing. */
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

/** Returns how a `--drain` ended, for people. */
function drainedText(done: number, unfinished: Readonly<Record<string, number>>): string {
  const others = Object.entries(UNFINISHED_TEXTS).flatMap(([kind, text]) => {
    const count = unfinished[kind] ?? 0
    return count === 0 ? [] : [`${count} ${text}`]
  })
  return `drained: ${[`${done} done`, ...others].join(', ')}`
}
