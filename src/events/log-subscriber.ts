import type { Log } from '../base/log.js'
import { baseName, displayName, type Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { Emitter } from './emitter.js'
import type { EventMap, EventName } from './event-map.js'

export interface LogSubscriberOptions {
  /** spooler-quiet: nothing about single tasks that went well. A reload may change it. */
  isQuiet(): boolean
}

/** An incomplete file that nobody holds may still be on its way for so long. */
const GRACE_MS = 10_000
/** Files that are left alone are told of once; of so many at most. */
const MAX_TOLD = 10_000

type Listeners = { readonly [Name in EventName]: (payload: EventMap[Name]) => void }

/** The only place where events become text. Lines that uWSGI has are uWSGI's to the byte (core/spooler.c, core/master*.c). */
export function subscribeLog(events: Emitter, log: Log, { isQuiet }: LogSubscriberOptions): void {
  const told = new Set<string>()

  function leftAlone(spool: string, ref: Ref, detail: string): void {
    const key = `${spool}/${ref}`
    if (told.has(key)) return
    if (told.size >= MAX_TOLD) told.clear()
    told.add(key)
    log.line('warn', `[spooler ${spool}] ${displayName(ref)} is left alone: ${detail}`, {
      spool,
      task: displayName(ref),
    })
  }

  function managing(spool: string, pid: number, ref: Ref): void {
    const name = displayName(baseName(ref))
    log.line('info', `[spooler ${spool} pid: ${pid}] managing request ${name} ...`, {
      spool,
      worker: pid,
      task: name,
    })
  }

  function reported(spool: string, pid: number, report: Report, isKnown: boolean): void {
    const { ref, kind, ranMs, atMs, detail } = report
    const name = displayName(baseName(ref))
    const fields = { spool, worker: pid, task: name, ranMs }
    switch (kind) {
      case 'ok':
        if (isQuiet()) return
        if (!isKnown) managing(spool, pid, ref)
        log.line(
          'info',
          `[spooler ${spool} pid: ${pid}] done with task ${name} after ${Math.floor(ranMs / 1000)} seconds`,
          fields,
        )
        return
      case 'retry':
        if (!isQuiet() && !isKnown) managing(spool, pid, ref)
        if (detail !== undefined)
          log.line('error', `[spooler ${spool} pid: ${pid}] task ${name}: ${detail}`, fields)
        return
      case 'error':
        if (!isQuiet() && !isKnown) managing(spool, pid, ref)
        log.line(
          'error',
          `[spooler ${spool} pid: ${pid}] task ${name} failed, runs again ${inSeconds(atMs)}: ${detail}`,
          fields,
        )
        return
      case 'ignore':
        if (!isQuiet() && !isKnown) managing(spool, pid, ref)
        log.line(
          'warn',
          'unable to find the spooler function, have you loaded it into the spooler process ?',
          fields,
        )
        return
      case 'unsettled':
        log.line(
          'error',
          `[spooler ${spool} pid: ${pid}] task ${name} is done but cannot be removed, it will not run again: ${detail}`,
          fields,
        )
        return
      case 'malformed':
      case 'unreadable':
        return leftAlone(spool, ref, detail ?? kind)
      case 'incomplete':
        if (Date.now() - (atMs ?? 0) > GRACE_MS) leftAlone(spool, ref, detail ?? kind)
        return
      case 'gone':
      case 'locked':
      case 'later':
      case 'untouched':
        return
    }
  }

  const listeners: Listeners = {
    'config-read': ({ file }) => log.line('info', `[uWSGI] getting INI configuration from ${file}`, { file }),
    'config-warning': ({ message }) => log.line('warn', message),
    'daemon-started': ({ pid, version }) =>
      log.line('info', `*** spoold ${version} is running (pid: ${pid}) ***`, { version }),
    'spool-opened': ({ spool, locks, because }) =>
      log.line(
        because === undefined ? 'info' : 'warn',
        locks === 'ofd'
          ? `[spooler ${spool}] claims with record locks (spooler-lock = ofd)`
          : `[spooler ${spool}] claims with lease files (spooler-lock = lockfile), which a uWSGI does not see${because === undefined ? '' : `: ${because}`}`,
        { spool, locks },
      ),

    'worker-spawned': ({ spool, pid }) =>
      log.line('info', `spawned the uWSGI spooler on dir ${spool} with pid ${pid}`, { spool, worker: pid }),
    'worker-died': ({ spool, pid, code, signal, running }) => {
      const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
      const tasks =
        running.length === 0
          ? ''
          : `; it had ${running.slice(0, 3).map(displayName).join(', ')}${running.length > 3 ? ', …' : ''}`
      log.line('error', `[spooler ${spool} pid: ${pid}] the process ${how}${tasks}`, {
        spool,
        worker: pid,
        code,
        signal,
      })
      log.line('error', 'OOOPS the spooler is no more...trying respawn...', { spool })
    },
    'worker-respawn-delayed': ({ spool, delayMs }) =>
      log.line(
        'warn',
        `[spooler ${spool}] the processes die young, the next one is spawned in ${delayMs / 1000} s`,
        { spool },
      ),
    'worker-unloadable': ({ spool, error }) => log.line('error', `[spooler ${spool}] ${error}`, { spool }),
    'worker-recycling': ({ spool, pid, tasks }) =>
      log.line(
        'info',
        `[spooler ${spool} pid: ${pid}] maximum number of tasks reached (${tasks}) recycling ...`,
        { spool, worker: pid },
      ),
    'worker-faulted': ({ spool, pid, error }) =>
      log.line(
        'error',
        `[spooler ${spool} pid: ${pid}] something was thrown outside of any task, the process is replaced: ${error}`,
        { spool, worker: pid },
      ),
    'worker-overran': ({ spool, pid, running }) => {
      log.line('error', `*** HARAKIRI ON THE SPOOLER (pid: ${pid}) ***`, {
        spool,
        worker: pid,
        tasks: running.map(displayName),
      })
      for (const ref of running)
        log.line(
          'error',
          `[spooler ${spool} pid: ${pid}] task ${displayName(baseName(ref))} overran spooler-harakiri`,
          { spool },
        )
    },
    'worker-out-of-mercy': ({ spool, pid }) =>
      log.dated('warn', `spooler (pid: ${pid}) is taking too much time to die...NO MERCY !!!`, {
        spool,
        worker: pid,
      }),
    'worker-stopping': ({ spool, pid }) =>
      log.line('info', `killing the spooler with pid ${pid}`, { spool, worker: pid }),
    'worker-stopped': ({ spool, pid }) =>
      log.line('info', `spooler (pid: ${pid}) annihilated`, { spool, worker: pid }),
    'spool-cheaped': ({ spool }) => log.dated('info', `cheaping spooler ${spool} ...`, { spool }),

    'task-started': ({ spool, pid, ref }) => {
      if (!isQuiet()) managing(spool, pid, ref)
    },
    'tasks-reported': ({ spool, pid, reports, known }) => {
      for (const report of reports) reported(spool, pid, report, known.has(report.ref))
    },
    'task-logged': ({ spool, pid, name, message }) =>
      log.line('info', `[spooler ${spool} pid: ${pid}] ${name}: ${message}`, {
        spool,
        worker: pid,
        task: name,
      }),

    'spool-missing': ({ spool, error }) =>
      log.line('error', `[spooler ${spool}] the directory cannot be listed, waiting for it: ${error}`, {
        spool,
      }),
    'spool-back': ({ spool }) => log.line('info', `[spooler ${spool}] the directory is back`, { spool }),
    'spool-unlisted': ({ spool, prefix, error }) =>
      log.line('error', `[spooler ${spool}] ${prefix} cannot be listed: ${error}`, { spool }),
    'spool-unvisited': ({ spool, prefix }) =>
      log.line(
        'warn',
        `[spooler ${spool}] nobody runs what is in ${prefix}: priorities need spooler-ordered = true`,
        { spool },
      ),
    'watch-lost': ({ spool, error, frequencyMs }) =>
      log.line(
        'warn',
        `[spooler ${spool}] no file-system events (${error}), new tasks are found every ${frequencyMs / 1000} s`,
        { spool },
      ),

    'reload-asked': ({ because, touched }) =>
      log.dated(
        'info',
        touched
          ? `*** ${because} has been touched... spoolers reload !!! ***`
          : '...gracefully killing workers...',
        { because },
      ),
    'reload-refused': ({ error }) =>
      log.line('error', `the reload is refused, everything goes on as before: ${error}`),
    'reload-done': () => log.line('info', 'the spoolers are reloaded'),
    'stop-asked': ({ signal }) =>
      log.line('info', 'SIGINT/SIGTERM received...killing workers...', { signal }),
    'stop-forced': ({ signal }) =>
      log.line('warn', `${signal} received...everything is killed now`, { signal }),
    'daemon-stopped': () => log.line('info', 'goodbye to uWSGI.'),
  }

  for (const name of Object.keys(listeners) as EventName[]) subscribe(events, name, listeners)
}

function subscribe<Name extends EventName>(events: Emitter, name: Name, listeners: Listeners): void {
  events.on(name, listeners[name])
}

function inSeconds(atMs: number | undefined): string {
  return atMs === undefined ? 'later' : `in ${Math.max(0, Math.round((atMs - Date.now()) / 1000))} s`
}
