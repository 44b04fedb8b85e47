import { setTimeout as sleep } from 'node:timers/promises'
import type { Output } from './output.js'
import type { Ending, Signals } from './signals.js'

/** What is in hand by then is given up: a command ends within a second of the signal. */
const MERCY_MS = 700
/** For the last words, where standard error leads to a reader that takes nothing. */
const LAST_WORDS_MS = 100
/** A terminal and the process that started this one may both pass on one signal; what comes later is meant as a second. */
const SAME_SIGNAL_MS = 250

/**
 * How INT, TERM, HUP and a closed terminal end a command. While it only looks, they do so by themselves, at once. One that changes much heeds
 * them: the first ends it after what it has in hand, and it says how far it came; a second ends it at once.
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
   * Call it before the first change.
   *
   * @param tally how much is done, for people: `636 of 5,000 removed`
   */
  heed(tally: () => string): void {
    this.#tally = tally
    if (this.#isHeeded) return
    this.#isHeeded = true
    this.#output.printAside(() => this.#heard('SIGHUP'))
    this.#stopHearing = this.#signals.hear(signal => this.#heard(signal))
  }

  /** Aborted by the first signal; never, if none is heeded. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Call it when the command has returned, and its output is to be whole. @returns its exit code, unless a signal has come */
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
