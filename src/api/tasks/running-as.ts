import { AsyncLocalStorage } from 'node:async_hooks'
import { type CurrentDaemon, offerDaemons } from '../../runtime/tasks/daemon.js'

/** The daemon whose task the current code runs for. This process may have several daemons, and code of its own. */
const running = new AsyncLocalStorage<CurrentDaemon>()
let isOffered = false

/** Runs `call` so that what it schedules goes through this daemon, and the current task is that of this daemon. */
export function runningAs<Result>(daemon: CurrentDaemon, call: () => Result): Result {
  if (!isOffered) offerDaemons(() => running.getStore())
  isOffered = true
  return running.run(daemon, call)
}
