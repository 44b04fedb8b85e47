import { crypto } from '../../../base/on-demand.js'
import type { Outcome } from '../../../base/task/outcome.js'
import { HostOutput } from './host-output.js'
import type { Page } from './page.js'

export interface HostReaderListener {
  /** Something was printed. */
  progress(): void
  /** The log is full for now. */
  isLogBehind(): boolean
  /** Output that belongs to no task: it was printed while the host's code was loaded. */
  printed(text: string): void
}

/** The outcome of a task, and the output that was not taken before. */
export interface Ended {
  readonly outcome: Outcome
  readonly printed: string
}

/** How often the output is polled, because an idle host may print too. */
const LISTEN_MS = 250
const TOKEN_BYTES = 16

/**
 * Assigns the output of a host to its tasks. Before `open`, and if that fails, output goes where the worker's own
 * goes.
 */
export class HostReader {
  readonly #page: Page
  readonly #listener: HostReaderListener
  #output: HostOutput | undefined
  #timer: NodeJS.Timeout | undefined
  #isLoaded = false
  #isDead = false

  constructor(page: Page, listener: HostReaderListener) {
    this.#page = page
    this.#listener = listener
  }

  /** @returns what to send to the host: the token of its marks, or nothing if its output cannot be read */
  open(path: string): Buffer[] {
    const token = crypto().randomBytes(TOKEN_BYTES)
    try {
      this.#output = new HostOutput(path, this.#page, token, () => this.#listener.isLogBehind())
    } catch {
      return []
    }
    this.#timer = setInterval(() => {
      if (this.#output?.poll() !== true) return
      if (this.#isLoaded) this.#listener.progress()
      else this.#listener.printed(this.#output.takeOpen()) // it tells what the code waits for
    }, LISTEN_MS).unref()
    return [token]
  }

  /** Reads what was printed. */
  listen(): void {
    this.#output?.poll()
  }

  /** Its code was loaded, or could not be. What was printed so far belongs to no task. */
  loaded(): void {
    this.#isLoaded = true
    this.#output?.poll()
    this.#listener.printed(this.#output?.takeOpen() ?? '')
  }

  /** Whether all output of a task that has ended has been read. */
  hasHeard(number: number): boolean {
    if (this.#output === undefined || this.#isDead) return true
    if (!this.#page.hasPrinted(number) || this.#output.hasEndOf(number)) return true
    this.#output.poll() // the mark was written before the result
    return this.#output.hasEndOf(number)
  }

  /** The output of a task that has ended. */
  takeOf(number: number): string {
    return this.#page.hasPrinted(number) ? (this.#output?.takeEndOf(number) ?? '') : ''
  }

  /**
   * The unmarked output so far; empty while its author is unknown.
   *
   * @param oldest the number of the oldest task that has not been collected
   */
  takeOpen(oldest: number): string {
    if (this.#output?.hasOpen !== true) return ''
    this.#page.refresh() // refresh after reading: a task without a result now has not ended without a mark before
    return this.#page.resultOf(oldest) === undefined ? this.#output.takeOpen() : ''
  }

  /** The host has died, so the pipe holds all remaining output. The results of its tasks must not wait for the log. */
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
