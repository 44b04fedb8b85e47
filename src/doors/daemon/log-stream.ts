import { withDeadline } from '../../base/clock.js'
import { LEVELS, type Level, type LineForm, type LineLog } from '../../base/log/log.js'
import { Queue } from '../../base/queue.js'
import { ControlError } from '../../formats/control/protocol.js'
import { Hide } from '../../formats/protocol/hide.js'
import { type Action, actionFor } from '../control/actions.js'

/** A line of the log. */
export interface LogLine {
  /** Epoch ms. */
  readonly atMs: number
  readonly level: Level
  /** The text; it may have several lines. */
  readonly text: string
}

/** How many lines and characters are remembered. As much waits for a client that reads slowly; more is dropped and counted. */
const MOST_LINES = 1000
const MOST_CHARS = 256 * 1024
/** How long a daemon that ends waits for a client that does not read. */
const LAST_CHANCE_MS = 1000
/** A longer line is cut before it is remembered. */
const LONGEST = 16 * 1024

/**
 * Passes lines on to a log, remembers the last ones, and sends new ones to readers. Clients of the control sockets that read
 * too slowly are told how many lines they have missed.
 */
export class RememberedLog implements LineLog {
  readonly isStructured: boolean
  readonly isPrecise: boolean
  readonly #log: LineLog
  readonly #lines = new Queue<LogLine>()
  readonly #readers = new Set<(line: LogLine) => void>()
  /** For each client that follows, what it has not been sent yet, and a promise that resolves when nothing more will be sent. */
  readonly #following = new Map<Promise<void>, Backlog>()
  #chars = 0
  #hide = new Hide([])

  constructor(log: LineLog) {
    this.#log = log
    this.isStructured = log.isStructured
    this.isPrecise = log.isPrecise
  }

  line(level: Level, text: string, fields?: object, form?: LineForm): void {
    const shown = fields === undefined ? undefined : this.#hide.texts(fields)
    this.#log.line(level, this.#remember(level, text), shown, form)
  }

  /** From now on, these values are in no line, including the remembered ones. */
  hide(hide: Hide): void {
    this.#hide = hide
    const remembered = this.lastLines
    this.#lines.clear()
    this.#chars = 0
    for (const line of remembered) this.#keep({ ...line, text: hide.text(line.text) })
  }

  /** The remembered lines, oldest first. */
  get lastLines(): LogLine[] {
    return [...this.#lines]
  }

  /** @param tell called for each line from now on @returns a function that ends this */
  read(tell: (line: LogLine) => void): () => void {
    this.#readers.add(tell)
    return () => this.#readers.delete(tell)
  }

  /** @returns the text without hidden values */
  #remember(level: Level, whole: string): string {
    const text = this.#hide.text(whole)
    const kept = text.length > LONGEST ? `${startOf(text)}…` : text
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

  /** The verb `log`: sends the remembered lines at once, then each batch of new ones, if the client follows. */
  readonly action = actionFor(
    'operator', // handlers may print what a viewer must not see
    { follow: 'flag', 'level?': 'text' },
    ({ follow, level = 'info' }, call) => {
      const least = LEVELS.map(String).indexOf(level)
      if (least < 0)
        throw new ControlError(
          'invalid-args',
          `level: expected one of ${LEVELS.join(', ')}, got ${JSON.stringify(level)}`,
        )
      const isWanted = (line: LogLine) => LEVELS.indexOf(line.level) >= least
      const known = this.lastLines.filter(isWanted)
      if (!follow) {
        call.send({ lines: known, missed: 0 })
        return undefined
      }
      const backlog = new Backlog(known)
      const following = this.#follow(backlog, isWanted, call)
      const over = following.catch(() => {}).then(() => void this.#following.delete(over))
      this.#following.set(over, backlog)
      return following
    },
  )

  /** Call it when the daemon has ended. Resolves when every client that reads has its last line. */
  async close(graceMs = LAST_CHANCE_MS): Promise<void> {
    for (const backlog of this.#following.values()) backlog.end('stopped')
    const all = Promise.all(this.#following.keys())
    await withDeadline<unknown>(all, graceMs, () => {})
  }

  async #follow(
    backlog: Backlog,
    isWanted: (line: LogLine) => boolean,
    call: Parameters<Action['run']>[1],
  ): Promise<void> {
    const stopReading = this.read(line => {
      if (isWanted(line)) backlog.add(line)
    })
    void call.whenGone.then(() => backlog.end('gone'))
    try {
      // one batch at a time: the next one has what came while the client took this one
      while (await backlog.filled()) {
        call.send(backlog.take())
        await call.whenTaken()
      }
      if (backlog.why === 'stopped') throw new ControlError('stopped', 'the daemon stops')
    } finally {
      stopReading()
    }
  }
}

/** Returns a copy, because a slice would keep in memory the whole text that it is part of. */
function startOf(text: string): string {
  return Buffer.from(text.slice(0, LONGEST), 'utf16le').toString('utf16le')
}

/** The lines that a client has not been sent yet. */
class Backlog {
  #lines: LogLine[]
  #chars = 0
  #missed = 0
  #wake = () => {}
  why: 'stopped' | 'gone' | undefined

  constructor(lines: readonly LogLine[]) {
    this.#lines = [...lines]
  }

  add(line: LogLine): void {
    const isFull = this.#missed > 0 || this.#lines.length >= MOST_LINES || this.#chars > MOST_CHARS
    if (isFull) this.#missed++
    else {
      this.#lines.push(line)
      this.#chars += line.text.length
    }
    this.#wake()
  }

  end(why: 'stopped' | 'gone'): void {
    this.why ??= why
    this.#wake()
  }

  /** Resolves with true when there is something to send, with false when nothing will come any more. */
  async filled(): Promise<boolean> {
    while (this.why !== 'gone') {
      if (this.#lines.length > 0) return true
      if (this.why !== undefined) return false
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
    return false
  }

  /** Takes what waits. `missed` is the number of lines that were dropped after these. */
  take(): { readonly lines: readonly LogLine[]; readonly missed: number } {
    const taken = { lines: this.#lines, missed: this.#missed }
    this.#lines = []
    this.#chars = 0
    this.#missed = 0
    return taken
  }
}
