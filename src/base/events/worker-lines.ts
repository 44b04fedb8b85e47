import type { LineLog } from '../log/log.js'
import { printable } from '../printable.js'
import { displayName, type TaskName } from '../task/ref.js'
import { nameOf } from '../task/report.js'
import type { Listeners, RecycleReason } from './event-map.js'
import { tellerOf } from './spool-lines.js'
import { lineName, PrintedLines, TaskLines, taskFields } from './task-lines.js'

/** The lines about the processes of spools: they start and end, report their tasks, and are more or fewer. */
export function workerLines(log: LineLog, isQuiet: (spool: string) => boolean) {
  const tell = tellerOf(log)
  const tasks = new TaskLines(log, isQuiet)
  const printed = new PrintedLines(log)
  return {
    'worker-spawned': ({ spool, pid }) =>
      log.line('info', `spawned the uWSGI spooler on dir ${spool} with pid ${pid}`, { spool, worker: pid }),
    'worker-loading': ({ spool, pid, what, afterMs }) =>
      tell(
        'warn',
        { spool, pid },
        `${what} is still loading (${afterMs / 1000} s); a top-level await, or an import that waits?`,
      ),
    'worker-unloadable': ({ spool, error }) => tell('error', { spool }, error),
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
      tell('error', { spool, pid }, `uncaught exception outside any task, replacing the process: ${error}`),
    'worker-unfit': ({ spool, pid, error }) =>
      tell('error', { spool, pid }, `the process cannot continue, replacing it: ${error}`),
    'host-died': ({ spool, pid, detail }) => tell('error', { spool, pid }, `${detail}, replacing it`),
    'worker-overran': ({ spool, pid, running }) => {
      const fields = { spool, worker: pid, tasks: running.map(displayName) }
      log.line('error', `*** HARAKIRI ON THE SPOOLER (pid: ${pid}) ***`, fields)
      for (const name of running)
        tell('error', { spool, pid }, `task ${lineName(name)} overran spooler-harakiri`, taskFields(name))
    },
    'worker-cancelled': ({ spool, pid, name }) =>
      tell(
        'warn',
        { spool, pid },
        `task ${lineName(name)} does not end after its cancel: killing the process`,
        taskFields(name),
      ),
    'worker-out-of-mercy': ({ spool, pid, running }) =>
      log.dated('warn', `spooler 1 (pid: ${pid}) is taking too much time to die...NO MERCY !!!`, {
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
        `${to} ${to === 1 ? 'process' : 'processes'}, not ${from}: ${reason}${algorithm === null ? '' : ` (${algorithm})`}`,
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
  } satisfies Partial<Listeners>
}

/** The first is uWSGI's line about its spooler, the others are of its workers. */
function reached(because: RecycleReason): string {
  if (because.kind === 'tasks') return `maximum number of tasks reached (${because.limit})`
  return `reload-on-${because.kind} limit reached (${because.bytes} >= ${because.limit})`
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
