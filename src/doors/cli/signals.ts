import { closeSync } from 'node:fs'
import { isatty } from 'node:tty'

/** The signals that end a command, with its exit code: 128 plus the number, as in a shell. */
const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
export type Ending = keyof typeof EXIT_CODES
const NAMES = Object.keys(EXIT_CODES) as readonly Ending[]

/** True if a signal ended the process with this exit code. */
export function isInterrupted(exitCode: number): boolean {
  return NAMES.some(name => EXIT_CODES[name] === exitCode)
}

/** The signals of a process. Tests replace them. */
export interface Signals {
  /** Takes the signals: from now on nobody else listens to them. */
  take(): void
  /** @returns a function that ends this */
  hear(listener: (signal: Ending) => void): () => void
  /** Ends this process. @param isStuck true: one of its threads is blocked, so an ordinary exit would wait for ever */
  end(signal: Ending, isStuck: boolean): void
}

const ours = new WeakSet<object>()

/** Marks a listener that stays when `Signals.take` removes all others. */
export function ownListener<Listener extends () => void>(listener: Listener): Listener {
  ours.add(listener)
  return listener
}

export const PROCESS_SIGNALS: Signals = {
  /**
   * Libraries add handlers for signals (proper-lockfile does, through signal-exit). With a handler, a signal no longer ends the
   * process by itself: a loop that gives the event loop no turn never hears of it, and neither does a blocked write. Node waits
   * for a signal once it has heard of the first listener, so it hears of ours alone: a signal that came between the addition of
   * another one and its removal would be lost.
   */
  take() {
    for (const name of NAMES) process.removeAllListeners(name)
    const emitter: NodeJS.EventEmitter = process
    const heard = emitter.listeners('newListener')
    process.removeAllListeners('newListener')
    process.on('newListener', (name: string | symbol, listener: () => void) => {
      const signal = NAMES.find(each => each === name)
      if (signal !== undefined && !ours.has(listener)) queueMicrotask(() => process.off(signal, listener))
      else for (const each of heard) Reflect.apply(each, process, [name, listener])
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
    process.kill(process.pid, signal) // ends the process, because no handler is left
  },
}

const TERMINALS = [0, 1, 2].filter(fd => isatty(fd))

/** Ends this process without Node's restoring the terminals, which would abort if one has been closed meanwhile. */
export function leave(exitCode: number): never {
  for (const fd of TERMINALS) if (!isatty(fd)) closeSync(fd)
  process.exit(exitCode)
}
