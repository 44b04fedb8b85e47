import type { Orders } from './actions.js'

/**
 * Ignored signals: some programs send them without meaning a spooler, and their default action would end it. SIGPROF is not among
 * them, because V8 itself uses it while it profiles the program.
 */
const PASSED_OVER = ['SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGIO', 'SIGPWR'] as const

/**
 * One Ctrl-C may arrive twice: from the terminal, and forwarded by npm or timeout(1). No person presses it again this
 * fast.
 */
const SAME_SIGNAL_MS = 250

/** Handles this process's signals; the table is in docs/lifecycle.md. A second SIGTERM or SIGINT means: stop now. */
export function listenToSignals({ stop, kill, reload, scanNow, toggleQuiet, dump }: Orders): void {
  let stoppedAt: number | undefined
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      if (stoppedAt !== undefined)
        return performance.now() - stoppedAt > SAME_SIGNAL_MS ? kill(signal) : undefined
      stoppedAt = performance.now()
      stop(signal)
    })
  process.on('SIGQUIT', () => kill('SIGQUIT'))
  process.on('SIGHUP', () => reload('SIGHUP'))
  process.on('SIGUSR1', scanNow) // would otherwise open Node's debugger
  let quietedAt = Number.NEGATIVE_INFINITY
  process.on('SIGTSTP', () => {
    const now = performance.now()
    if (now - quietedAt > SAME_SIGNAL_MS) toggleQuiet('SIGTSTP')
    quietedAt = now
  })
  process.on('SIGTTIN', dump)
  for (const signal of PASSED_OVER) process.on(signal, () => {})
  const early = new Set(takeEarlySignals())
  if (early.has('SIGHUP')) reload('SIGHUP')
  if (early.has('SIGTSTP')) toggleQuiet('SIGTSTP')
}

/**
 * A signal may arrive before there is a handler for it, and would end the process. bin/spoold.js therefore records
 * signals from its first line on. The code that decides what this process does takes them over here.
 */
export interface EarlySignals {
  readonly kept: NodeJS.Signals[]
  /** Stops recording. */
  release(): void
}

let recorded: EarlySignals | undefined

export function keepEarlySignals(signals: EarlySignals): void {
  recorded = signals
}

/** Call it once the real handlers are installed. @returns the signals recorded until now */
function takeEarlySignals(): readonly NodeJS.Signals[] {
  const kept = recorded?.kept ?? []
  recorded?.release()
  recorded = undefined
  return kept
}

/** Gives signals their default action again, for a command. */
export function obeyEarlySignals(): void {
  for (const signal of takeEarlySignals()) process.kill(process.pid, signal)
}
