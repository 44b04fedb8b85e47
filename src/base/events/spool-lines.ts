import type { Level, LineLog } from '../log/log.js'
import { printable } from '../printable.js'
import { describePauses } from '../task/pause.js'
import { displayName } from '../task/ref.js'
import { durationText } from '../time-text.js'
import type { Listeners } from './event-map.js'

/** Whose line it is: a spool's or, with a pid, a worker's. */
export interface Speaker {
  readonly spool: string
  readonly pid?: number
}

type Tell = (level: Level, speaker: Speaker, text: string, fields?: object) => void

export function prefixOf({ spool, pid }: Speaker): string {
  return pid === undefined ? `[spooler ${spool}]` : `[spooler ${spool} pid: ${pid}]`
}

/** Lines that begin with whose they are. */
export function tellerOf(log: LineLog): Tell {
  return (level, speaker, text, fields) => {
    const { spool, pid } = speaker
    const worker = pid === undefined ? {} : { worker: pid }
    log.line(level, `${prefixOf(speaker)} ${text}`, { spool, ...worker, ...fields })
  }
}

/** The lines about a spool: its directory, its tasks as a whole, what it does. */
export function spoolLines(log: LineLog) {
  const tell = tellerOf(log)
  return {
    'spool-opened': ({ spool, locks, because }) =>
      tell(because === undefined ? 'info' : 'warn', { spool }, claimText(locks, because), { locks }),
    'spool-went-cheap': ({ spool }) => log.dated('info', `cheaping spooler ${spool} ...`, { spool }),
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
        `swept leftovers of dead writers: ${removed} unfinished tasks removed, ${published} promised tasks published, ${givenBack} given back`,
        { removed, published, givenBack },
      ),
    'spool-purged': ({ spool, removed }) =>
      tell('info', { spool }, `purged ${removed} dead letters`, { removed }),
    'spool-cleanup-failed': ({ spool, error }) => tell('warn', { spool }, `cleanup failed: ${error}`),
    'watch-lost': ({ spool, prefix, error, frequencyMs }) =>
      tell(
        'warn',
        { spool },
        `no file-system events${prefix === '' ? '' : ` from ${printable(prefix)}`} (${error}), new tasks are found every ${frequencyMs / 1000} s`,
      ),
    'watch-back': ({ spool }) => tell('info', { spool }, 'file-system events are back'),
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
  } satisfies Partial<Listeners>
}

function claimText(locks: string, because: string | undefined): string {
  if (locks === 'redis') return 'claims jobs of BullMQ'
  if (locks === 'ofd') return 'claims with record locks (spooler-lock = ofd)'
  const why = because === undefined ? '' : `: ${because}`
  return `claims with lease files (spooler-lock = lockfile), which uWSGI does not see${why}`
}
