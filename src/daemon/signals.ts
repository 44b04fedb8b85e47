import { takeEarlySignals } from './early-signals.js'

/** Some programs send them, nobody means a spooler, and each would end it. */
const PASSED_OVER = ['SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGIO', 'SIGPWR'] as const

/** What a master does on signals; the table is in docs/lifecycle.md. */
interface SignalActions {
  /** Take no more, let running tasks end. */
  stop(signal: string): void
  /** End now. */
  kill(signal: string): void
  reload(): void
  scanNow(): void
}

/** One Ctrl-C may arrive twice: from the terminal, and passed on by npm or timeout(1). Nobody presses it so fast. */
const SAME_SIGNAL_MS = 250

/** Listens to this process's signals. A second SIGTERM or SIGINT means: now. */
export function listenToSignals({ stop, kill, reload, scanNow }: SignalActions): void {
  let stoppedAt: number | undefined
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      if (stoppedAt !== undefined)
        return performance.now() - stoppedAt > SAME_SIGNAL_MS ? kill(signal) : undefined
      stoppedAt = performance.now()
      stop(signal)
    })
  process.on('SIGQUIT', () => kill('SIGQUIT'))
  process.on('SIGHUP', reload)
  process.on('SIGUSR1', scanNow) // would otherwise open Node's debugger
  for (const signal of PASSED_OVER) process.on(signal, () => {})
  const early = new Set(takeEarlySignals())
  if (early.has('SIGHUP')) reload()
}
