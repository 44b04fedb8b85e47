import { AsyncLocalStorage } from 'node:async_hooks'
import { type CurrentDaemon, offerDaemons } from '../../runtime/tasks/daemon.js'

/** The daemon whose task the executing code belongs to: there may be several in this process, besides other code. */
const running = new AsyncLocalStorage<CurrentDaemon>()
let isOffered = false

/** What `call` schedules and asks of the current task concerns this daemon. */
export function runningAs<Result>(daemon: CurrentDaemon, call: () => Result): Result {
  if (!isOffered) offerDaemons(() => running.getStore())
  isOffered = true
  return running.run(daemon, call)
}
