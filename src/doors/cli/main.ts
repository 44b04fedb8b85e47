import { type EarlySignals, keepEarlySignals } from '../daemon/signals.js'
import { processIo } from './io.js'
import { takeOwnProcess } from './own-process.js'
import { main } from './program.js'
import { leave } from './signals.js'

/** Runs the program, from its command line to its exit code. */
export function start(signals: EarlySignals): void {
  keepEarlySignals(signals)
  process.umask(process.umask(0o077) & 0o077) // the owner must be able to open the tasks, or they would never run
  main(process.argv.slice(2), processIo(takeOwnProcess())).then(leave)
}
