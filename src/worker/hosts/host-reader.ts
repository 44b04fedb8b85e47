import { randomBytes } from 'node:crypto'
import type { Outcome } from '../../task/outcome.js'
import { HostOutput } from './host-output.js'
import type { Page } from './page.js'

export interface HostReaderListener {
  /** Something was printed. */
  progress(): void
  /** The log takes no more output for now. */
  isLogBehind(): boolean
  /** By nobody that is known: while the host's code is loaded. */
  printed(text: string): void
}

/** What came of a task, and what it printed that was not taken before. */
export interface Ended {
  readonly outcome: Outcome
  readonly printed: string
}

/** An idle host may print, too. */
const LISTEN_MS = 250
const TOKEN_BYTES = 16

/** Whose output it is that a host prints. Until it is open, and where it cannot be, output goes where the worker's own goes. */
export class HostReader {
  readonly #page: Page
  readonly #listener: HostReaderListener
  #output: HostOutput | undefined
  #timer: NodeJS.Timeout | undefined
  #isDead = false

  constructor(page: Page, listener: HostReaderListener) {
    this.#page = page
    this.#listener = listener
  }

  /** @returns what the host is to be told: the token of its marks; nothing where it cannot be heard */
  open(path: string): Buffer[] {
    const token = randomBytes(TOKEN_BYTES)
    try {
      this.#output = new HostOutput(path, this.#page, token, () => this.#listener.isLogBehind())
    } catch {
      return []
    }
    this.#timer = setInterval(() => {
      if (this.#output?.poll() === true) this.#listener.progress()
    }, LISTEN_MS).unref()
    return [token]
  }

  /** Reads what was printed. */
  listen(): void {
    this.#output?.poll()
  }

  /** Its code is loaded, or could not be: what was printed so far is nobody's. */
  loaded(): void {
    this.#output?.poll()
    this.#listener.printed(this.#output?.takeOpen() ?? '')
  }

  /** Was everything read that a task that has ended had printed? */
  hasHeard(number: number): boolean {
    if (this.#output === undefined || this.#isDead) return true
    if (!this.#page.hasPrinted(number) || this.#output.hasEndOf(number)) return true
    this.#output.poll() // the mark was written before the result
    return this.#output.hasEndOf(number)
  }

  /** What a task that has ended had printed. */
  takeOf(number: number): string {
    return this.#page.hasPrinted(number) ? (this.#output?.takeEndOf(number) ?? '') : ''
  }

  /**
   * What was printed and has no mark, so far; or, as long as it is not known whose it is, nothing.
   *
   * @param oldest the number of the oldest task of which nothing came yet
   */
  takeOpen(oldest: number): string {
    if (this.#output?.hasOpen !== true) return ''
    this.#page.refresh() // after it was read: until then its author has not ended without a mark
    return this.#page.resultOf(oldest) === undefined ? this.#output.takeOpen() : ''
  }

  /** The host has died: what is in the pipe now is all. What came of its tasks must not wait for the log. */
  stop(): void {
    clearInterval(this.#timer)
    this.#output?.poll(true)
    this.#isDead = true
  }

  close(): void {
    this.#output?.close()
    this.#output = undefined
  }
}
