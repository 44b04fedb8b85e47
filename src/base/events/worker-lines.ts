import type { Log } from '../log/log.js'
import { printable } from '../printable.js'
import { displayName, type TaskName } from '../task/ref.js'
import { nameOf } from '../task/report.js'
import type { EventName, Listeners, RecycleReason } from './event-map.js'
import type { PrintedLines, TaskLines } from './task-lines.js'

type WorkerEvent = Exclude<
  Extract<
    EventName,
    `worker-${string}` | 'marks-left' | `host-${string}` | `task-${string}` | `tasks-${string}`
  >,
  ScaledWorkerEvent
>

export function workerLines(log: Log, tasks: TaskLines, printed: PrintedLines): Listeners<WorkerEvent> {
  return { ...startLines(log), ...endLines(log, tasks, printed), ...taskLines(log, tasks, printed) }
}

type StartEvent =
  | 'worker-spawned'
  | 'worker-loading'
  | 'worker-unloadable'
  | 'worker-fork-failed'
  | 'worker-respawn-delayed'

/** A worker starts, or cannot. */
function startLines(log: Log): Listeners<StartEvent> {
  return {
    'worker-spawned': ({ spool, pid }) =>
      log.line('info', `spawned the uWSGI spooler on dir ${spool} with pid ${pid}`, { spool, worker: pid }),
    'worker-loading': ({ spool, pid, what, afterMs }) =>
      log.line(
        'warn',
        `[spooler ${spool} pid: ${pid}] ${what} is still loading (${afterMs / 1000} s); a top-level await, or an import that waits?`,
        { spool, worker: pid },
      ),
    'worker-unloadable': ({ spool, error }) => log.line('error', `[spooler ${spool}] ${error}`, { spool }),
    'worker-fork-failed': ({ spool, error }) =>
      log.line('error', `[spooler ${spool}] cannot fork a process, retrying later: ${error}`, {
        spool,
      }),
    'worker-respawn-delayed': ({ spool, delayMs }) =>
      log.line(
        'warn',
        `[spooler ${spool}] workers keep failing, next spawn in ${Math.round(delayMs) / 1000} s`,
        { spool },
      ),
  }
}

/** A worker ends, or is about to: by itself, by a stop, or by a fault. */
function endLines(
  log: Log,
  tasks: TaskLines,
  printed: PrintedLines,
): Listeners<Exclude<WorkerEvent, StartEvent | TaskEvent>> {
  return {
    'worker-died': ({ spool, pid, code, signal, running }) => {
      printed.exited(pid)
      const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
      const fields = { spool, worker: pid, code, signal, tasks: running.map(displayName) }
      log.line('error', `[spooler ${spool} pid: ${pid}] the process ${how}${itHad(running)}`, fields)
      log.line('error', 'OOOPS the spooler is no more...trying respawn...', { spool })
    },
    'worker-recycling': ({ spool, pid, because }) =>
      log.line('info', `[spooler ${spool} pid: ${pid}] ${reached(because)} recycling ...`, {
        spool,
        worker: pid,
      }),
    'worker-faulted': ({ spool, pid, error }) =>
      log.line(
        'error',
        `[spooler ${spool} pid: ${pid}] uncaught exception outside any task, replacing the process: ${error}`,
        { spool, worker: pid },
      ),
    'worker-unfit': ({ spool, pid, error }) =>
      log.line(
        'error',
        `[spooler ${spool} pid: ${pid}] the process cannot continue, replacing it: ${error}`,
        {
          spool,
          worker: pid,
        },
      ),
    'host-died': ({ spool, pid, detail }) =>
      log.line('error', `[spooler ${spool} pid: ${pid}] ${detail}, replacing it`, {
        spool,
        worker: pid,
      }),
    'worker-overran': ({ spool, pid, running }) => {
      const fields = { spool, worker: pid, tasks: running.map(displayName) }
      log.line('error', `*** HARAKIRI ON THE SPOOLER (pid: ${pid}) ***`, fields)
      for (const name of running) tasks.overran({ spool, pid }, name)
    },
    'worker-cancelled': ({ spool, pid, name }) => tasks.stuck({ spool, pid }, name),
    'worker-out-of-mercy': ({ spool, pid, running }) =>
      log.dated('warn', `spooler 1 (pid: ${pid}) is taking too much time to die...NO MERCY !!!`, {
        spool,
        worker: pid,
        tasks: running.map(displayName),
      }),
    'marks-left': ({ spool, names, error }) =>
      log.line(
        'warn',
        `[spooler ${spool}] interrupted runs count as crashes, because their marks cannot be cleared: ${named(names)}: ${error}`,
        { spool, tasks: names.map(displayName) },
      ),
    'worker-stopping': ({ spool, pid }) =>
      log.line('info', `killing the spooler with pid ${pid}`, { spool, worker: pid }),
    'worker-stopped': ({ spool, pid }) => {
      printed.exited(pid)
      log.line('info', `spooler (pid: ${pid}) annihilated`, { spool, worker: pid })
    },
  }
}

/** The first is uWSGI's line about its spooler, the others are of its workers. */
function reached(because: RecycleReason): string {
  if (because.kind === 'tasks') return `maximum number of tasks reached (${because.limit})`
  return `reload-on-${because.kind} limit reached (${because.bytes} >= ${because.limit})`
}

type TaskEvent = Extract<EventName, `task-${string}` | `tasks-${string}`>

/** What a worker reports of its tasks. */
function taskLines(log: Log, tasks: TaskLines, printed: PrintedLines): Listeners<TaskEvent> {
  return {
    'task-started': ({ spool, pid, name }) => tasks.managing({ spool, pid }, name),
    'tasks-reported': ({ spool, pid, done, reports, known }) => {
      for (const name of done) printed.ended(pid, name)
      for (const report of reports) {
        printed.ended(pid, nameOf(report))
        tasks.reported({ spool, pid }, report, known.has(nameOf(report)))
      }
    },
    'task-cancelling': ({ spool, pid, name }) => tasks.cancelling({ spool, pid }, name),
    'task-logged': ({ spool, pid, name, message, stream }) =>
      log.line('info', `[spooler ${spool} pid: ${pid}] ${printable(name)}: ${message}`, {
        spool,
        worker: pid,
        task: name,
        stream,
      }),
    'task-printed': piece => printed.printed(piece),
  }
}

function itHad(running: readonly TaskName[]): string {
  return running.length === 0 ? '' : `; it had ${named(running)}`
}

export function stillRun(running: readonly TaskName[]): string {
  return running.length === 1
    ? `1 task still runs (${named(running)}), it has`
    : `${running.length} tasks still run (${named(running)}), they have`
}

function named(tasks: readonly TaskName[]): string {
  const names = tasks.slice(0, 3).map(name => printable(displayName(name)))
  return `${names.join(', ')}${tasks.length > 3 ? ', …' : ''}`
}

type ScaledWorkerEvent = 'worker-cheaped' | 'worker-overweight' | 'worker-outlived'

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
