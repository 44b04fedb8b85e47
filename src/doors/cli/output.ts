import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { withSeverity } from '../../base/log/journal.js'
import type { Io, Sink } from './io.js'

/** What a command does once its output cannot be written any longer. */
type Purpose =
  /** It only prints: it exits, with 0 if the reader has closed the pipe. */
  | 'look'
  /** Its exit code is its answer: it continues without output. */
  | 'judge'
  /** It changes something: it continues without output, and exits with a code other than 0. */
  | 'change'

type Streams = Pick<Io, 'stdout' | 'stderr' | 'isJournal' | 'isWatched' | 'isPrintedToTerminal'>

const CLEAR_LINE = '\r\x1b[K'

/** sysexits.h: EX_IOERR. */
export const EX_IOERR = 74

/** The reader of standard output has gone, and the command need not continue. */
export class ReaderGone extends Error {
  override readonly name = 'ReaderGone'
}

/**
 * Standard output and standard error of a command. A write blocks until the reader has taken it, so that no output is cut
 * off at exit, and none piles up in memory.
 */
export class Output {
  /** A command that does not set it counts as one that changes something. */
  purpose: Purpose = 'change'
  readonly #stdout: Sink
  readonly #stderr: Sink
  readonly #isJournal: boolean
  /** A status can be shown. */
  readonly isWatched: boolean
  readonly #isPrintedToTerminal: boolean
  #hasStatus = false
  /** Since the last status. */
  #hasPrinted = false
  #fault: unknown

  constructor({ stdout, stderr, isJournal = false, isWatched, isPrintedToTerminal = false }: Streams) {
    this.#stdout = stdout
    this.#stderr = stderr
    this.#isJournal = isJournal
    this.isWatched = isWatched
    this.#isPrintedToTerminal = isPrintedToTerminal
  }

  /**
   * @throws ReaderGone for `look`, if the reader has gone
   * @throws SpooldError OUTPUT_FAILED for `look`, if the output cannot be written for another reason
   */
  line(text: string): void {
    this.write(`${text}\n`)
  }

  /** As `line`, without the newline. */
  write(text: string): void {
    if (this.#fault !== undefined) return
    if (this.#isPrintedToTerminal) {
      this.clearStatus()
      this.#hasPrinted = true
    }
    try {
      this.#stdout(text)
    } catch (error) {
      this.#fault = error
      this.#failed(error)
    }
  }

  /** Writes a line to standard error; write errors there are ignored. */
  complain(text: string): void {
    const line = `spoold: ${text}\n`
    this.writeError(this.#isJournal ? withSeverity(3, line) : line)
  }

  /** Writes text to standard error as it is. */
  writeError(text: string): void {
    this.clearStatus()
    this.#writeQuietly(text)
  }

  /** Shows a line on the terminal until something else is written there. Lines that run past show enough. */
  status(text: string): void {
    const isBusy = this.#hasPrinted
    this.#hasPrinted = false
    if (!this.isWatched || isBusy) return
    this.#writeQuietly(`${CLEAR_LINE}${text}`)
    this.#hasStatus = true
  }

  /** Call it before something else is written to the terminal. */
  clearStatus(): void {
    if (this.#hasStatus) this.#writeQuietly(CLEAR_LINE)
    this.#hasStatus = false
  }

  #writeQuietly(text: string): void {
    try {
      this.#stderr(text)
    } catch {}
  }

  /** The exit code of a command that would exit with `own`. 0 means that everything was done and printed. */
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
