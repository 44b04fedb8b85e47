import { errnoOf, messageOf, SpooldError } from '../base/errors.js'
import type { Sink } from './io.js'

/** What a command does once nobody can read it any more. */
type Purpose =
  /** It only prints: it ends, with 0. */
  | 'look'
  /** Its exit code is its answer: it goes on in silence. */
  | 'judge'
  /** It changes something: it goes on in silence, and does not end with 0. */
  | 'change'

/** sysexits.h: EX_IOERR. */
export const EX_IOERR = 74

/** Standard output has no reader any more, and the command need not go on. */
export class ReaderGone extends Error {
  override readonly name = 'ReaderGone'
}

/**
 * Standard output and standard error of a command. A write waits for the reader, however slow it is, so that nothing is
 * cut off at the end and nothing piles up in memory.
 */
export class Output {
  /** A command that does not say what it is for is taken for one that changes something. */
  purpose: Purpose = 'change'
  readonly #stdout: Sink
  readonly #stderr: Sink
  #fault: unknown

  constructor({ stdout, stderr }: { readonly stdout: Sink; readonly stderr: Sink }) {
    this.#stdout = stdout
    this.#stderr = stderr
  }

  /**
   * @throws ReaderGone for `look`, when the reader has left
   * @throws SpooldError OUTPUT_FAILED for `look`, when the output cannot be written for another reason
   */
  line(text: string): void {
    this.write(`${text}\n`)
  }

  /** As `line`, without its end. */
  write(text: string): void {
    if (this.#fault !== undefined) return
    try {
      this.#stdout(text)
    } catch (error) {
      this.#fault = error
      this.#failed(error)
    }
  }

  /** A line on standard error; where that has no reader, nobody can be told. */
  complain(text: string): void {
    this.writeError(`spoold: ${text}\n`)
  }

  /** As it is, on standard error. */
  writeError(text: string): void {
    try {
      this.#stderr(text)
    } catch {}
  }

  /** The exit code of a command that would end with `own`: 0 means that all of it was done, and printed. */
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
