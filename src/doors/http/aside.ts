import { setPriority } from 'node:os'
import { keepHeapSmall } from '../../system/small-heap.js'

/** Tells the process that the daemon lets go: it frees all addresses, sends what is left to send, and ends. */
interface Close {
  readonly type: 'close'
}

interface Aside<Heard> {
  hear(message: Heard): void
  close(): Promise<void>
}

/** Tasks come first: a crowd of clients gets a tenth of a processor that a worker can use. */
const NICENESS = 10

/**
 * Runs a process that the daemon forks for HTTP. The process hears the daemon, and ends when the daemon lets go of it, or dies.
 */
export function runAside<Heard extends { readonly type: string }, Said extends object>(
  make: (send: (message: Said) => void) => Aside<Heard>,
): void {
  keepHeapSmall() // many short answers leave garbage
  try {
    setPriority(NICENESS)
  } catch {} // a sandbox may forbid it
  const aside = make(message => {
    if (process.connected) process.send?.(message, undefined, undefined, () => {}) // the daemon may be gone
  })
  const end = () => void aside.close().then(() => process.exit(0))
  const isClose = (message: Heard | Close): message is Close => message.type === 'close'
  process.on('message', (message: Heard | Close) => (isClose(message) ? end() : aside.hear(message)))
  process.on('disconnect', end) // the daemon is gone
  // a terminal's Ctrl-C reaches the whole process group, but the daemon decides
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGTSTP', 'SIGQUIT'] as const)
    process.on(signal, () => {})
}
