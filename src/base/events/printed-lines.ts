import type { Log } from '../log/log.js'
import { printable } from '../printable.js'
import { baseName, displayName, type TaskName } from '../task/ref.js'
import type { EventMap } from './event-map.js'

type Printed = EventMap['task-printed']

/** A longer line is split. */
const MAX_LINE_CHARS = 8192
/** The maximum number of tasks with an unterminated line. */
const MAX_OPEN = 1000

/**
 * How spoold's own lines start, with or without a date; a test compares this with every event. Printed lines that start like
 * this are prefixed with their author, so that no handler can forge a line of the daemon.
 */
const OWN_BEGINNING =
  /^(?:.{0,64}? - )?(?:\[(?:spooler|uwsgi)|\*\*\* |\.\.\.|OOOPS |spawned |spoold|spooler (?:1 )?\(pid|sig[a-z0-9/]+ received|killing |cheaping |cheaper hard |worker \d+ lifetime |\[busyness\] |goodbye |drained: |vacuum: |writing pidfile|set(?:gid|uid)\(|set additional|chdir\(|uwsgi socket|-- unavailable|error managing|invalid signal|\^\^\^|could not deliver|you can register|unable to |the (?:reload|spoolers|log) |\d+ (?:lines|tasks?|more) |\S+ was turned away|.*: (?:warning|error): )/i

/** What handlers print, line by line; in a text log, unchanged. */
export class PrintedLines {
  readonly #log: Log
  /** What was printed after the last newline, per author and stream. */
  readonly #open = new Map<string, Printed>()

  constructor(log: Log) {
    this.#log = log
  }

  printed(piece: Printed): void {
    const key = keyOf(piece)
    const lines = ((this.#open.get(key)?.text ?? '') + piece.text).split('\n')
    const rest = lines.pop() ?? ''
    for (const line of lines) this.#lineOf(piece, line)
    this.#keep(key, piece, rest)
  }

  /** The task has ended, and with it its last line. */
  ended(pid: number, name: TaskName): void {
    if (this.#open.size > 0) this.#close(piece => piece.pid === pid && piece.name === name)
  }

  /** The process has ended, and with it its last line. */
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
      return this.#log.plain(line, { event: 'task-printed', stream, spool, worker: pid, task })
    const isBare = !isBeside && !OWN_BEGINNING.test(line)
    const author = task === undefined ? '' : ` ${printable(task)}:`
    this.#log.plain(isBare ? line : `[spooler ${spool} pid: ${pid}]${author} ${line}`)
  }
}

function keyOf({ pid, name, stream }: Printed): string {
  return `${pid} ${stream} ${name ?? ''}`
}
