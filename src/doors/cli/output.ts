import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { withSeverity } from '../../base/log/output.js'
import { printableJson, printableLine, printableLines } from '../../base/printable.js'
import type { Io, Sink, SinkAside } from './io.js'

/** The kind of a command, which decides what the command does once its output cannot be written any longer. */
type Purpose =
  /** A command that only prints exits, with 0 if the reader has closed the pipe. */
  | 'look'
  /** A command whose exit code is its answer continues without output. */
  | 'judge'
  /** A command that changes something continues without output, and exits with a code other than 0. */
  | 'change'

type Streams = Pick<
  Io,
  'stdout' | 'stderr' | 'stdoutAside' | 'stderrAside' | 'isJournal' | 'isWatched' | 'isPrintedToTerminal'
>

const CLEAR_LINE = '\r\x1b[K'

/** sysexits.h: EX_IOERR. */
export const EX_IOERR = 74

/** The reader of standard output has gone, and the command need not continue. */
export class ReaderGone extends Error {
  override readonly name = 'ReaderGone'
}

/** Once more characters than this wait to be printed aside, a command waits for `room`. */
const MOST_WAITING_CHARS = 64 * 1024

/** A text that is to be printed aside, in its turn. */
interface Piece {
  readonly isError: boolean
  text: string
}

/**
 * Standard output and standard error of a command. A write blocks until the reader has taken it, so that no output is cut
 * off at exit, and none piles up in memory.
 *
 * A command that heeds signals prints aside, because a blocked write would keep it from hearing them. Such a command waits for
 * `room` instead.
 */
export class Output {
  /** The purpose of the command. A command that does not set it counts as one that changes something. */
  purpose: Purpose = 'change'
  readonly #stdout: Sink
  readonly #stderr: Sink
  readonly #stdoutAside: SinkAside
  readonly #stderrAside: SinkAside
  readonly #isJournal: boolean
  /** True if a status can be shown. */
  readonly isWatched: boolean
  readonly #isPrintedToTerminal: boolean
  #hasStatus = false
  /** True if anything was printed since the last status. */
  #hasPrinted = false
  #fault: unknown
  #isAside = false
  #hungUp = () => {}
  #waiting: Piece[] = []
  #waitingChars = 0
  #printing: Promise<void> | undefined
  /** True while the reader has not taken all of a piece. */
  isStuck = false

  constructor({
    stdout,
    stderr,
    stdoutAside = async text => stdout(text),
    stderrAside = async text => stderr(text),
    isJournal = false,
    isWatched,
    isPrintedToTerminal = false,
  }: Streams) {
    this.#stdout = stdout
    this.#stderr = stderr
    this.#stdoutAside = stdoutAside
    this.#stderrAside = stderrAside
    this.#isJournal = isJournal
    this.isWatched = isWatched
    this.#isPrintedToTerminal = isPrintedToTerminal
  }

  /**
   * Prints one line. It is escaped, as everything that is printed here, so that no name, value or error gives the terminal an
   * order, or begins a line of its own.
   *
   * @throws ReaderGone for `look`, if the reader has gone
   * @throws SpooldError OUTPUT_FAILED for `look`, if the output cannot be written for another reason
   */
  line(text: string): void {
    this.lines([text])
  }

  /** As `line`, for several lines at once. */
  lines(texts: readonly string[]): void {
    if (texts.length > 0) this.#print(texts.map(text => `${printableLine(text)}\n`).join(''))
  }

  /** Prints a text of any number of lines. All but the first are indented, so that none passes for a line of ours. */
  paragraph(text: string): void {
    this.#print(`${printableLines(text)}\n`)
  }

  /** Prints a text of ours with its newlines, such as a help. */
  page(text: string): void {
    this.#print(text.split('\n').map(printableLine).join('\n'))
  }

  /** As `page`, to standard error: what to do next. */
  pageAside(text: string): void {
    this.clearStatus()
    this.#writeQuietly(text.split('\n').map(printableLine).join('\n'))
  }

  /** Prints a value as JSON, in one line unless it is indented. */
  json(value: unknown, indent?: number): void {
    this.#print(`${printableJson(JSON.stringify(value, null, indent))}\n`)
  }

  /** Prints a line of a table, which has escaped its cells before it painted them. */
  painted(line: string): void {
    this.#print(`${line}\n`)
  }

  #print(text: string): void {
    if (this.#fault !== undefined) return
    if (this.#isPrintedToTerminal) {
      this.clearStatus()
      this.#hasPrinted = true
    }
    if (this.#isAside) return this.#queue({ isError: false, text })
    try {
      this.#stdout(text)
    } catch (error) {
      this.#fault = error
      this.#failed(error)
    }
  }

  /** From now on, every text waits for its turn, and nothing here blocks. @param hungUp called if the terminal is closed */
  printAside(hungUp: () => void): void {
    this.#isAside = true
    this.#hungUp = hungUp
  }

  /** Resolves when more may be printed aside; undefined if that is now. */
  room(): Promise<void> | undefined {
    return this.#waitingChars > MOST_WAITING_CHARS ? this.flushed() : undefined
  }

  /** Resolves when all has been printed. */
  async flushed(): Promise<void> {
    while (this.#printing !== undefined) await this.#printing
  }

  /** As `complain`, but before the texts that wait for their turn. */
  complainPast(text: string): Promise<void> {
    return this.#stderrAside(this.#complaint(printableLine(text))).catch(() => {})
  }

  #queue(piece: Piece): void {
    const last = this.#waiting.at(-1)
    if (last?.isError === piece.isError) last.text += piece.text
    else this.#waiting.push(piece)
    this.#waitingChars += piece.text.length
    this.#printing ??= this.#printWaiting()
  }

  async #printWaiting(): Promise<void> {
    await new Promise(resolve => setImmediate(resolve)) // what is printed in one turn of the event loop is one write
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      this.isStuck = true
      await this.#printPiece(next)
      this.isStuck = false
      this.#waitingChars -= next.text.length
    }
    this.#printing = undefined
  }

  async #printPiece({ isError, text }: Piece): Promise<void> {
    try {
      if (isError) await this.#stderrAside(text).catch(() => {})
      else if (this.#fault === undefined) await this.#stdoutAside(text)
    } catch (error) {
      this.#fault = error
      // the terminal is closed: its shell gets the signal, and need not pass it on
      if (this.#isPrintedToTerminal && errnoOf(error) === 'EIO') return this.#hungUp()
      this.#failed(error)
    }
  }

  /** Writes a line to standard error, as `line` does; write errors there are ignored. */
  complain(text: string): void {
    this.#complain(printableLine(text))
  }

  /** As `complain`, like `paragraph`: an error with a stack, or with a list of faults. */
  complainAtLength(text: string): void {
    this.#complain(printableLines(text))
  }

  #complain(safe: string): void {
    this.clearStatus()
    this.#writeQuietly(this.#complaint(safe))
  }

  /** @param safe the escaped text */
  #complaint(safe: string): string {
    const line = `spoold: ${safe}\n`
    return this.#isJournal ? withSeverity(3, line) : line
  }

  /** Shows a line on the terminal until something else is written there; none while printed lines run past and show enough. */
  status(text: string): void {
    const isBusy = this.#hasPrinted
    this.#hasPrinted = false
    if (!this.isWatched || isBusy) return
    this.#writeQuietly(`${CLEAR_LINE}${printableLine(text)}`)
    this.#hasStatus = true
  }

  /** Call it before something else is written to the terminal. */
  clearStatus(): void {
    if (this.#hasStatus) this.#writeQuietly(CLEAR_LINE)
    this.#hasStatus = false
  }

  #writeQuietly(text: string): void {
    if (this.#isAside) return this.#queue({ isError: true, text })
    try {
      this.#stderr(text)
    } catch {}
  }

  /** Returns the exit code of a command that would exit with `own`. 0 means that everything was done and printed. */
  exitCode(own: number): number {
    this.clearStatus()
    if (own !== 0 || this.#fault === undefined) return own
    return hasLeft(this.#fault) && this.purpose !== 'change' ? 0 : EX_IOERR
  }

  #failed(error: unknown): void {
    const isLook = this.purpose === 'look'
    if (hasLeft(error)) {
      if (isLook) throw new ReaderGone()
      return
    }
    const text = `standard output cannot be written: ${messageOf(error)}`
    if (isLook) throw new SpooldError('OUTPUT_FAILED', text, { cause: error })
    this.complain(`[OUTPUT_FAILED] ${text}; the command goes on`)
  }
}

function hasLeft(error: unknown): boolean {
  return errnoOf(error) === 'EPIPE'
}
