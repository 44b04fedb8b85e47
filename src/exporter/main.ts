import { setPriority } from 'node:os'
import { keepHeapSmall } from '../system/small-heap.js'
import { Exporter } from './exporter.js'
import type { ToExporter } from './messages.js'

/** The entry point of the exporter's process. The daemon forks it and sends the first message. */

/** Tasks come first: a crowd of clients gets a tenth of a processor that a worker can use. */
const NICENESS = 10

keepHeapSmall() // garbage of many short answers
try {
  setPriority(NICENESS)
} catch {} // a sandbox forbids it

const exporter = new Exporter(message => {
  if (process.connected) process.send?.(message, undefined, undefined, () => {}) // the daemon may have just gone
})

process.on('message', (message: ToExporter) => exporter.hear(message))
// the daemon stops it, or is gone
process.on('disconnect', () => void exporter.close().then(() => process.exit(0)))
// a terminal's Ctrl-C reaches the whole process group, but the daemon decides
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGTSTP', 'SIGQUIT'] as const)
  process.on(signal, () => {})
