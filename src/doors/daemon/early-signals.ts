/**
 * A signal may arrive before there is a handler for it, and would end the process. bin/spoold.js therefore records
 * signals from its first line on. The code that decides what this process does takes them over here.
 */
export interface EarlySignals {
  readonly kept: NodeJS.Signals[]
  /** Stops recording. */
  release(): void
}

let early: EarlySignals | undefined

export function keepEarlySignals(signals: EarlySignals): void {
  early = signals
}

/** Call it once the real handlers are installed. @returns the signals recorded until now */
export function takeEarlySignals(): readonly NodeJS.Signals[] {
  const kept = early?.kept ?? []
  early?.release()
  early = undefined
  return kept
}

/** For a command: its signals get their default action. */
export function obeyEarlySignals(): void {
  for (const signal of takeEarlySignals()) process.kill(process.pid, signal)
}
