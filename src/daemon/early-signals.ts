/**
 * A signal may come before there is anybody to obey it, and would end the process. bin/spoold.js keeps those signals from
 * its first line on; who knows what becomes of this process takes them over here.
 */
export interface EarlySignals {
  readonly kept: NodeJS.Signals[]
  /** Keeps none from here on. */
  release(): void
}

let early: EarlySignals | undefined

export function keepEarlySignals(signals: EarlySignals): void {
  early = signals
}

/** To be called once others listen. @returns what came until now */
export function takeEarlySignals(): readonly NodeJS.Signals[] {
  const kept = early?.kept ?? []
  early?.release()
  early = undefined
  return kept
}

/** For a command, which obeys as other programs do. */
export function obeyEarlySignals(): void {
  for (const signal of takeEarlySignals()) process.kill(process.pid, signal)
}
