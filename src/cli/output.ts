import { errnoOf, messageOf, SpooldError } from '../base/errors.js'
import { withSeverity } from '../log/journal.js'
import type { Io, Sink } from './io.js'

/** What a command does once its output cannot be written any longer. */
type Purpose =
  /** It only prints: it exits, with 0 if the reader has closed the pipe. */
  | 'look'
  /** Its exit code is its answer: it continues without output. */
  | 'judge'
  /** It changes something: it continues without output, and exits with a code other than 0. */
  | 'change'

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
  #fault: unknown

  constructor({ stdout, stderr, isJournal = false }: Pick<Io, 'stdout' | 'stderr' | 'isJournal'>) {
    this.#stdout = stdout
    this.#stderr = stderr
    this.#isJournal = isJournal
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
    try {
      this.#stderr(text)
    } catch {}
  }

  /** The exit code of a command that would exit with `own`. 0 means that everything was done and printed. */
  exitCode(own: number): number {
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
