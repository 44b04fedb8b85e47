import { closeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isatty } from 'node:tty'
import type { Output } from './output.js'

/** The signals that end a command, and its exit code then: 128 and the number, as a shell has it for who died of the signal. */
const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
type Ending = keyof typeof EXIT_CODES
const NAMES = Object.keys(EXIT_CODES) as readonly Ending[]

/** What is in hand by then is given up: a command ends within a second of the signal. */
const MERCY_MS = 700
/** For the last words, where standard error leads to a reader that takes nothing. */
const LAST_WORDS_MS = 100
/** A terminal and the process that started this one may both pass on one signal; what comes later is meant as a second. */
const SAME_SIGNAL_MS = 250

/** Did a signal end the process with this exit code? */
export function isInterrupted(exitCode: number): boolean {
  return NAMES.some(name => EXIT_CODES[name] === exitCode)
}

/** The signals of a process. Tests replace them. */
export interface Signals {
  /** From now on nobody else listens to them. */
  take(): void
  /** @returns what ends it */
  hear(listener: (signal: Ending) => void): () => void
  /** Ends this process. @param isStuck one of its threads is blocked, for which an ordinary exit would wait */
  end(signal: Ending, isStuck: boolean): void
}

const ours = new WeakSet<object>()

/** Of a listener that stays where `Signals.take` lets no other. */
export function ownListener<Listener extends () => void>(listener: Listener): Listener {
  ours.add(listener)
  return listener
}

export const PROCESS_SIGNALS: Signals = {
  /**
   * Libraries put handlers on them (that of locks does, through signal-exit). With a handler, a signal no longer ends the
   * process by itself: a loop that gives the event loop no turn never hears of it, nor does a write that is blocked.
   */
  take() {
    for (const name of NAMES) process.removeAllListeners(name)
    process.on('newListener', (name: string | symbol, listener: () => void) => {
      const signal = NAMES.find(each => each === name)
      if (signal !== undefined && !ours.has(listener)) queueMicrotask(() => process.off(signal, listener))
    })
  },
  hear(listener) {
    const listeners = NAMES.map(name => [name, ownListener(() => listener(name))] as const)
    for (const [name, each] of listeners) process.on(name, each)
    return () => {
      for (const [name, each] of listeners) process.off(name, each)
    }
  },
  end(signal, isStuck) {
    if (!isStuck) leave(EXIT_CODES[signal])
    process.kill(process.pid, signal) // of the signal itself: there is no handler any more
  },
}

const TERMINALS = [0, 1, 2].filter(fd => isatty(fd))

/** Ends this process. Node wants to restore the terminals, and would abort at one that has been closed meanwhile. */
export function leave(exitCode: number): never {
  for (const fd of TERMINALS) if (!isatty(fd)) closeSync(fd)
  process.exit(exitCode)
}

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
  #unhear = () => {}

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
    this.#unhear = this.#signals.hear(signal => this.#heard(signal))
  }

  /** Aborted by the first signal; never, if none is heeded. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Call it when the command has returned, and its output is to be whole. @returns its exit code, unless a signal has come */
  async ended(own: number): Promise<number> {
    if (this.#first !== undefined && !this.#hasSaid) this.#output.complain(this.#lastWords())
    await this.#output.flushed()
    this.#unhear()
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
    this.#unhear()
    if (!this.#hasSaid || this.#output.isStuck)
      await Promise.race([this.#output.complainPast(this.#lastWords()), sleep(LAST_WORDS_MS)])
    this.#signals.end(signal, this.#output.isStuck)
  }
}
