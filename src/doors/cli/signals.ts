import { closeSync } from 'node:fs'
import { isatty } from 'node:tty'

/** The signals that end a command, and its exit code then: 128 and the number, as a shell has it for who died of the signal. */
const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
export type Ending = keyof typeof EXIT_CODES
const NAMES = Object.keys(EXIT_CODES) as readonly Ending[]

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
