import type { Awaitable, Claims } from '../../engines/claims.js'
import type { AsideReply, WorkerMessage, WorkerOptions } from '../ipc/messages.js'
import type { LoadedHandlers } from './handlers.js'
import type { LoadedHandler } from './load-module.js'
import type { Loop } from './loop.js'
import type { WorkerSignals } from './signal-actions.js'
import type { WorkerDaemon } from './worker-daemon.js'
import type { WorkingDirectory } from './working-directory.js'

/** What a worker runs in: its own process, or that of another program. */
export interface WorkerHome {
  /** @param sent called when the message has been handed to the channel, or cannot be delivered */
  send(message: WorkerMessage | AsideReply, sent: () => void): void
  /** The last message has been handed to the channel. The worker does nothing any more. */
  exit(code: number): void
  /** The options are known; no handler is loaded yet. @param signals the signal functions for handlers */
  entered(options: WorkerOptions, signals: WorkerSignals, daemon: WorkerDaemon): void
  /** It is ready, and has run nothing. */
  opened?(options: WorkerOptions, loop: Pick<Loop, 'follow'>): void
  /** @param tell tells people of a task that it has claimed */
  openClaims(
    options: WorkerOptions,
    termsOf?: LoadedHandlers['termsOf'],
    tell?: (task: string, message: string) => void,
  ): Awaitable<Claims>
  readonly directory: WorkingDirectory
  /** Set if other code runs in the same process. */
  readonly shared?: SharedProcess
}

/** What a worker has to know of a process that is not its own. */
interface SharedProcess {
  /** What the link `given` of the chain stands for. */
  readonly given: readonly LoadedHandler[]
  /** After so long the signal of a run fires; 0: never. Nothing can be killed here. */
  readonly deadlineMs: number
  /** Calls handlers; what they call can be told from the rest of the program. */
  around<Result>(call: () => Result): Result
}
