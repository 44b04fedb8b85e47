import type { Level, Log } from '../../base/log/log.js'
import { Queue } from '../../base/queue.js'
import { Hide } from '../../formats/protocol/hide.js'

/** A line of the log. */
export interface LogLine {
  /** Epoch ms. */
  readonly atMs: number
  readonly level: Level
  /** It may have several lines. */
  readonly text: string
}

/** So many lines are remembered, and so many characters of them. */
const MOST_LINES = 1000
const MOST_CHARS = 256 * 1024
/** More of a line is not remembered. */
const LONGEST = 16 * 1024

/** A log that remembers its last lines, wherever they are written, and tells readers the next ones. */
export class RememberedLog implements Log {
  readonly isStructured: boolean
  readonly isPrecise: boolean
  readonly #log: Log
  readonly #lines = new Queue<LogLine>()
  readonly #readers = new Set<(line: LogLine) => void>()
  #chars = 0
  #hide = new Hide([])

  constructor(log: Log) {
    this.#log = log
    this.isStructured = log.isStructured
    this.isPrecise = log.isPrecise
  }

  get fd(): number {
    return this.#log.fd
  }

  line(level: Level, text: string, fields?: object): void {
    this.#log.line(level, this.#remember(level, text), this.#shown(fields))
  }

  dated(level: Level, text: string, fields?: object): void {
    this.#log.dated(level, this.#remember(level, text), this.#shown(fields))
  }

  plain(text: string, fields?: object): void {
    this.#log.plain(this.#remember('info', text), this.#shown(fields))
  }

  /** From now on, these values are in no line, nor in those that are remembered. */
  hide(hide: Hide): void {
    this.#hide = hide
    const remembered = this.lastLines
    this.#lines.clear()
    this.#chars = 0
    for (const line of remembered) this.#keep({ ...line, text: hide.text(line.text) })
  }

  reopen(): void {
    this.#log.reopen()
  }

  end(): Promise<void> {
    return this.#log.end()
  }

  /** The oldest first. */
  get lastLines(): LogLine[] {
    return [...this.#lines]
  }

  /** @param tell called for each line from now on @returns what ends it */
  read(tell: (line: LogLine) => void): () => void {
    this.#readers.add(tell)
    return () => this.#readers.delete(tell)
  }

  #shown(fields: object | undefined): object | undefined {
    return fields === undefined ? undefined : this.#hide.texts(fields)
  }

  /** @returns the text without what is hidden */
  #remember(level: Level, whole: string): string {
    const text = this.#hide.text(whole)
    const kept = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text
    const line = { atMs: Date.now(), level, text: kept }
    this.#keep(line)
    for (const tell of this.#readers) tell(line)
    return text
  }

  #keep(line: LogLine): void {
    this.#lines.push(line)
    this.#chars += line.text.length
    while (this.#lines.size > MOST_LINES || this.#chars > MOST_CHARS)
      this.#chars -= this.#lines.pop()?.text.length ?? 0
  }
}
