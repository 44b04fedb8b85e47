import type { Level, LineLog } from '../log/log.js'
import { printable } from '../printable.js'
import { baseName, displayName, priorityOf, type TaskName } from '../task/ref.js'
import { isHandled, nameOf, type Report } from '../task/report.js'
import { durationText } from '../time-text.js'
import type { EventMap } from './event-map.js'

/** The subject of a line: a spool or, with a pid, a worker. */
export interface Speaker {
  readonly spool: string
  readonly pid?: number
}

export function prefixOf({ spool, pid }: Speaker): string {
  return pid === undefined ? `[spooler ${spool}]` : `[spooler ${spool} pid: ${pid}]`
}

/** An unlocked, incomplete file that has changed less than this ago may still be arriving. */
const GRACE_MS = 10_000
/**
 * The most warnings that are remembered, so that each is logged once. The limit holds for files that are left alone and for what
 * tasks wait for, each on its own.
 */
const MAX_SAID = 10_000

/** The lines about single tasks (core/spooler.c, spooler_manage_task). */
export class TaskLines {
  readonly #log: LineLog
  readonly #isQuiet: (spool: string) => boolean
  readonly #leftAloneSaid = new Set<string>()
  readonly #waitsSaid = new Set<string>()
  /** The spools of which the log says that they are read-only. */
  readonly #readOnly = new Set<string>()

  constructor(log: LineLog, isQuiet: (spool: string) => boolean) {
    this.#log = log
    this.#isQuiet = isQuiet
  }

  managing(speaker: Speaker, name: TaskName): void {
    if (this.#isQuiet(speaker.spool)) return
    const fields = this.#fields(speaker, name, { event: 'task-started' })
    this.#log.line('info', `${prefixOf(speaker)} managing request ${lineName(name)} ...`, fields)
  }

  /** @param isKnown true if the `managing` line was written when the task started */
  reported(speaker: Speaker, report: Report, isKnown: boolean): void {
    const { kind, atMs, detail } = report
    const name = nameOf(report)
    if (!isKnown && hasRun(kind)) this.managing(speaker, name)
    if (hasRun(kind) && kind !== 'unsettled') this.#readOnly.delete(speaker.spool)
    const line = report.task === undefined ? lineName(name) : `${lineName(name)} (${printable(report.task)})`
    switch (kind) {
      case 'ok':
        if (this.#isQuiet(speaker.spool)) return
        return this.#tell('info', speaker, report, `done with task ${line} after ${this.#ran(report)}`)
      case 'retry':
        if (detail === undefined && !this.#log.isStructured) return // uWSGI logs nothing either
        return this.#tell(
          detail === undefined ? 'info' : 'error',
          speaker,
          report,
          `task ${line}: ${detail ?? 'runs again'}`,
        )
      case 'error':
        return this.#tell(
          'error',
          speaker,
          report,
          `task ${line} failed, runs again ${inTime(atMs)}: ${detail}`,
        )
      case 'ignore': // the first line also with spooler-quiet, as in uWSGI
        this.#log.line(
          'warn',
          'unable to find the spooler function, have you loaded it into the spooler process ?',
          this.#endFields(speaker, report),
        )
        if (this.#isQuiet(speaker.spool)) return
        return this.#log.line(
          'warn',
          `${prefixOf(speaker)} task ${line} was ignored by every handler, and is offered again: did one return 0, or register none?`,
          this.#fields(speaker, name, {}),
        )
      case 'unsettled':
        return this.#tell('error', speaker, report, `task ${line} ${detail}`)
      case 'buried':
      case 'set-aside':
        return this.#tell('error', speaker, report, `task ${line} is buried: ${detail}`)
      case 'unreadable':
        if (detail?.startsWith('EROFS') === true) return this.#warnOfReadOnly(speaker.spool, name, detail)
        return this.#leftAlone(speaker.spool, name, detail ?? kind)
      case 'malformed':
        return this.#leftAlone(speaker.spool, name, detail ?? kind)
      case 'incomplete':
        if (Date.now() - (atMs ?? 0) > GRACE_MS) this.#leftAlone(speaker.spool, name, detail ?? kind)
        return
      case 'gone':
      case 'locked':
      case 'later':
      case 'untouched':
        return
      case 'parked':
        if (report.reason === 'unknown-name') return this.#unknown(speaker.spool, name, detail ?? '')
        return report.slots === undefined || detail === undefined
          ? undefined
          : this.#waits(speaker.spool, report.slots.name, name, `waits: ${detail}`)
    }
  }

  #tell(level: Level, speaker: Speaker, report: Report, text: string): void {
    this.#log.line(level, `${prefixOf(speaker)} ${text}`, this.#endFields(speaker, report))
  }

  /** Returns how long the handler ran: in whole seconds as in uWSGI, unless the log is more precise. */
  #ran({ ranMs }: Report): string {
    return this.#log.isPrecise
      ? `${(ranMs / 1000).toFixed(3)} seconds`
      : `${Math.floor(ranMs / 1000)} seconds`
  }

  #endFields(speaker: Speaker, report: Report): object | undefined {
    if (!this.#log.isStructured) return undefined // called for each task of a backlog
    const { kind, ranMs, waitMs, attempt, atMs, detail } = report
    const name = nameOf(report)
    const taskName = report.task === undefined ? {} : { taskName: report.task }
    const run = hasRun(kind) ? { ranMs, waitMs, attempt, arrivedAt: arrivalOf(name) } : {}
    return this.#fields(speaker, name, {
      event: 'task-ended',
      outcome: kind,
      ...taskName,
      ...run,
      nextRunAt: atMs,
      error: detail,
    })
  }

  /** Returns the fields of a line; undefined for a text log, which has none. */
  #fields({ spool, pid }: Speaker, name: TaskName, more: object): object | undefined {
    if (!this.#log.isStructured) return undefined
    return { spool, worker: pid, ...taskFields(name), ...more }
  }

  /** Warns of a task whose name no handler knows, once per name. */
  #unknown(spool: string, name: TaskName, task: string): void {
    const why = `no handler knows the task ${task}; it waits until one does: reload or restart the daemon with the module that registers it`
    this.#waits(spool, task, name, `is parked: ${why}`)
  }

  #waits(spool: string, what: string, name: TaskName, text: string): void {
    this.#warnOnce(this.#waitsSaid, `${spool}/ ${what}`, spool, name, text)
  }

  #leftAlone(spool: string, name: TaskName, detail: string): void {
    this.#warnOnce(this.#leftAloneSaid, `${spool}/${name}`, spool, name, `is left alone: ${detail}`)
  }

  /** Warns of a read-only disk, which keeps all tasks from running, once until one of them has run. */
  #warnOfReadOnly(spool: string, name: TaskName, detail: string): void {
    if (this.#readOnly.has(spool)) return
    this.#readOnly.add(spool)
    this.#warn(spool, name, `is left alone, as all others here: ${detail}`)
  }

  #warnOnce(said: Set<string>, key: string, spool: string, name: TaskName, text: string): void {
    if (said.has(key) || said.size >= MAX_SAID) return
    said.add(key)
    const rest = said.size < MAX_SAID ? '' : '; until a restart the log has no more such lines'
    this.#warn(spool, name, `${text}${rest}`)
  }

  #warn(spool: string, name: TaskName, text: string): void {
    const fields = { spool, task: displayName(name) }
    this.#log.line('warn', `${prefixOf({ spool })} ${printable(displayName(name))} ${text}`, fields)
  }
}

/** Returns the fields of a task in a structured log. */
export function taskFields(name: TaskName) {
  return { task: displayName(baseName(name)), priority: priorityOf(name) ?? undefined }
}

/** Returns the name of a task for a line. */
export function lineName(name: TaskName): string {
  return printable(displayName(baseName(name)))
}

function hasRun(kind: Report['kind']): boolean {
  return isHandled(kind) || kind === 'ignore'
}

/** Returns when the task was written, in epoch ms, because uWSGI's names end in that time (core/spooler.c, spool_request). */
function arrivalOf(name: TaskName): number | undefined {
  const [, seconds, micros] = /uwsgi_spoolfile_on_[^/]*_(\d{1,11})_(\d{1,6})$/.exec(name) ?? []
  return seconds === undefined ? undefined : Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
}

function inTime(atMs: number | undefined): string {
  return atMs === undefined ? 'later' : `in ${durationText(atMs - Date.now())}`
}

type Printed = EventMap['task-printed']

/** Printed lines that are longer than this are split. */
const MAX_LINE_CHARS = 8192
/** The maximum number of unterminated lines; beyond it, all of them are written out. */
const MAX_OPEN = 1000

/**
 * Matches the beginning of spoold's own lines, with or without a date; a test compares this with every event. Printed lines that
 * begin like this are prefixed with their author, so that no handler can forge a line of the daemon.
 */
const OWN_BEGINNING =
  /^(?:.{0,64}? - )?(?:\[(?:spooler|uwsgi)|\*\*\* |\.\.\.|OOOPS |spawned |spoold|spooler (?:1 )?\(pid|sig[a-z0-9/]+ received|killing |cheaping |cheaper hard |worker \d+ lifetime |\[busyness\] |goodbye |drained: |vacuum: |writing pidfile|set(?:gid|uid)\(|set additional|chdir\(|uwsgi socket|-- unavailable|error managing|invalid signal|\^\^\^|could not deliver|you can register|unable to |the (?:reload|spoolers|start|log) |\d+ (?:lines|tasks?|more) |\S+ was turned away|.*: (?:warning|error): )/i

/** Logs what handlers print, line by line. In a text log the lines are unchanged, unless their author could be mistaken. */
export class PrintedLines {
  readonly #log: LineLog
  /** The text after the last newline, per author and stream. */
  readonly #open = new Map<string, Printed>()

  constructor(log: LineLog) {
    this.#log = log
  }

  printed(piece: Printed): void {
    const key = keyOf(piece)
    const lines = ((this.#open.get(key)?.text ?? '') + piece.text).split('\n')
    const rest = lines.pop() ?? ''
    for (const line of lines) this.#lineOf(piece, line)
    this.#keep(key, piece, rest)
  }

  /** Call it when a task has ended: its last line has ended with it. */
  ended(pid: number, name: TaskName): void {
    if (this.#open.size > 0) this.#close(piece => piece.pid === pid && piece.name === name)
  }

  /** Call it when a process has ended: its last lines have ended with it. */
  exited(pid: number): void {
    this.#close(piece => piece.pid === pid)
  }

  #keep(key: string, piece: Printed, rest: string): void {
    this.#open.delete(key)
    if (rest.length > MAX_LINE_CHARS) return this.#lineOf(piece, rest)
    if (rest !== '') this.#open.set(key, { ...piece, text: rest })
    if (this.#open.size > MAX_OPEN) this.#close(() => true)
  }

  #close(matches: (piece: Printed) => boolean): void {
    for (const [key, piece] of this.#open) {
      if (!matches(piece)) continue
      this.#open.delete(key)
      this.#lineOf(piece, piece.text)
    }
  }

  #lineOf(piece: Printed, text: string): void {
    const line = text.endsWith('\r') ? text.slice(0, -1) : text
    for (let at = 0; at === 0 || at < line.length; at += MAX_LINE_CHARS)
      this.#write(piece, line.slice(at, at + MAX_LINE_CHARS))
  }

  #write({ spool, pid, name, stream, isBeside }: Printed, line: string): void {
    const task = name === null ? undefined : displayName(baseName(name))
    if (this.#log.isStructured)
      return this.#log.line('info', line, { event: 'task-printed', stream, spool, worker: pid, task })
    const isBare = !isBeside && !OWN_BEGINNING.test(line)
    const author = task === undefined ? '' : ` ${printable(task)}:`
    const shown = isBare ? line : `${prefixOf({ spool, pid })}${author} ${line}`
    this.#log.line('info', shown, undefined, 'plain')
  }
}

function keyOf({ pid, name, stream }: Printed): string {
  return `${pid} ${stream} ${name ?? ''}`
}
