import { STARTED, statOf } from '../../system/process-usage.js'

/**
 * Programs that a worker runs for its tasks, each the leader of its own process group. When the worker is killed,
 * they have to be killed too: no other process would do it, and a task would run twice at once.
 */
export class WorkerChildren {
  /** When each has started. */
  readonly #startTimes = new Map<number, string | undefined>()

  started(pid: number): void {
    this.#startTimes.set(pid, statOf(pid)[STARTED])
  }

  ended(pid: number): void {
    this.#startTimes.delete(pid)
  }

  kill(): void {
    for (const [pid, startTime] of this.#startTimes)
      if (startTime !== undefined && startTime === statOf(pid)[STARTED])
        try {
          process.kill(-pid, 'SIGKILL')
        } catch {}
    this.#startTimes.clear()
  }
}
