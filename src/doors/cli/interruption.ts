import { setTimeout as sleep } from 'node:timers/promises'
import type { Output } from './output.js'
import type { Ending, Signals } from './signals.js'

/** This long after the first signal, a command gives up what it has in hand, so that it ends within a second of the signal. */
const MERCY_MS = 700
/** The time for the last words if the reader of standard error takes nothing. */
const LAST_WORDS_MS = 100
/** A signal within this time is the first one again: a terminal and the process that started this one may both pass it on. */
const SAME_SIGNAL_MS = 250

/**
 * The way in which INT, TERM, HUP and a closed terminal end a command. A command that only looks does not heed them, so they end
 * it at once. A command that changes much heeds them: the first ends it after what it has in hand, and it says how far it came;
 * a second ends it at once.
 */
export class Interruption {
  readonly #signals: Signals
  readonly #output: Output
  readonly #controller = new AbortController()
  #tally = () => ''
  #isHeeded = false
  #first: { readonly signal: Ending; readonly atMs: number } | undefined
  #hasSaid = false
  #stopHearing = () => {}

  constructor(signals: Signals, output: Output) {
    this.#signals = signals
    this.#output = output
  }

  /**
   * Makes the command heed signals. Call it before the first change.
   *
   * @param tally returns how much is done, for people: `636 of 5,000 removed`
   */
  heed(tally: () => string): void {
    this.#tally = tally
    if (this.#isHeeded) return
    this.#isHeeded = true
    this.#output.printAside(() => this.#heard('SIGHUP'))
    this.#stopHearing = this.#signals.hear(signal => this.#heard(signal))
  }

  /** Aborted by the first signal; never aborted if the command does not heed signals. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Waits until the output is whole. Call it when the command has returned. @returns its exit code, unless a signal has come */
  async ended(own: number): Promise<number> {
    if (this.#first !== undefined && !this.#hasSaid) this.#output.complain(this.#lastWords())
    this.#output.clearStatus()
    await this.#output.flushed()
    this.#stopHearing()
    if (this.#first !== undefined) this.#signals.end(this.#first.signal, false)
    return this.#output.exitCode(own)
  }

  #lastWords(): string {
    this.#hasSaid = true
    return `interrupted: ${this.#tally()}`
  }

  #heard(signal: Ending): void {
    const atMs = performance.now()
    if (this.#first === undefined) {
      this.#first = { signal, atMs }
      this.#controller.abort(signal)
      setTimeout(() => void this.#giveUp(signal), MERCY_MS)
    } else if (atMs - this.#first.atMs > SAME_SIGNAL_MS) void this.#giveUp(signal)
  }

  async #giveUp(signal: Ending): Promise<void> {
    this.#stopHearing()
    if (!this.#hasSaid || this.#output.isStuck)
      await Promise.race([this.#output.complainPast(this.#lastWords()), sleep(LAST_WORDS_MS)])
    this.#signals.end(signal, this.#output.isStuck)
  }
}
