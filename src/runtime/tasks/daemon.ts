import type { Enqueuer } from '../../engines/enqueuer.js'
import type { ScheduledTask } from './scheduled-task.js'

/**
 * The name under which all copies of this package find the daemon of this process, because a module of tasks may import another
 * copy than the daemon runs. Change the name with any incompatible change of the interface.
 */
const DAEMON = Symbol.for('spoold.daemon.1')

/** A named task during its run. */
export interface RunningTask extends ScheduledTask {
  /** @see Task.fencingToken */
  readonly fencingToken: number | undefined
  /** Fires shortly before the process is killed, at its deadline (spooler-harakiri) or at the end of a stop's mercy. */
  readonly signal: AbortSignal
  /** Writes a line to the daemon's log, with the task's name. */
  log(message: string): void
}

/** The daemon that runs the tasks of this process. */
export interface CurrentDaemon {
  /** Returns where the daemon's tasks of this queue go. @throws SpooldError QUEUE_UNKNOWN */
  enqueuerOf(queue: string): Enqueuer
  /** The named task whose code is executing. */
  current(): RunningTask | undefined
}

type Offered = typeof globalThis & { [DAEMON]?: CurrentDaemon }

/** Makes the daemon known in this process. A worker calls it before it loads a handler. */
export function offerDaemon(daemon: CurrentDaemon): void {
  const offered: Offered = globalThis
  offered[DAEMON] = daemon
}

/** True in a process or thread that a daemon has for its tasks. */
export function isWorker(): boolean {
  return Object.getOwnPropertyDescriptor(globalThis, DAEMON)?.value !== undefined
}

/**
 * Makes daemons known that share a process with other code. Each is current in the runs of its own tasks.
 *
 * @param running the daemon whose task the executing code belongs to
 */
export function offerDaemons(running: () => CurrentDaemon | undefined): void {
  const before = Object.getOwnPropertyDescriptor(globalThis, DAEMON)
  const outer = before?.get ?? (() => before?.value)
  Object.defineProperty(globalThis, DAEMON, { configurable: true, get: () => running() ?? outer() })
}

export function currentDaemon(): CurrentDaemon | undefined {
  const offered: Offered = globalThis
  return offered[DAEMON]
}

/** Returns the named task in whose run this code executes; undefined anywhere else. */
export function currentTask(): RunningTask | undefined {
  return currentDaemon()?.current()
}
