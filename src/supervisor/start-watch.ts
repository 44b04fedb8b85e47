import { SpooldError } from '../base/errors.js'
import type { WorkerProcess } from './worker-process.js'

/** A start that takes so long is told of. */
const SLOW_MS = 10_000

export interface StartWatchOptions {
  /** 0: no deadline. */
  readonly startTimeoutMs: number
  slow(afterMs: number): void
}

/** Tells of a worker that takes long to load its handlers, and gives it up when it takes too long. */
export function watchStart(worker: WorkerProcess, { startTimeoutMs, slow }: StartWatchOptions): void {
  const timers = [setTimeout(() => slow(SLOW_MS), SLOW_MS)]
  if (startTimeoutMs > 0) timers.push(setTimeout(() => giveUp(worker, startTimeoutMs), startTimeoutMs))
  const clear = () => timers.forEach(clearTimeout)
  worker.start.whenReady.then(clear, clear)
}

function giveUp(worker: WorkerProcess, afterMs: number): void {
  worker.start.fail(
    new SpooldError(
      'HANDLER_UNLOADABLE',
      `${worker.start.loading ?? 'the worker'} is still loading after ${afterMs / 1000} s (spooler-start-timeout)`,
    ),
  )
  worker.kill()
}
