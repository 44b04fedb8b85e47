import { readFileSync } from 'node:fs'

/**
 * Programs that a worker runs for its tasks, each the head of a group of its own. When the worker is killed, nobody else
 * would end them, and a task would run twice at once.
 */
export class WorkerChildren {
  /** When each was started, in the kernel's ticks: a pid alone may be somebody else's by now. */
  readonly #startTimes = new Map<number, string | undefined>()

  started(pid: number): void {
    this.#startTimes.set(pid, startTimeOf(pid))
  }

  ended(pid: number): void {
    this.#startTimes.delete(pid)
  }

  kill(): void {
    for (const [pid, startTime] of this.#startTimes)
      if (startTime !== undefined && startTime === startTimeOf(pid))
        try {
          process.kill(-pid, 'SIGKILL')
        } catch {}
    this.#startTimes.clear()
  }
}

/** Field 22 of /proc/PID/stat; the second one may hold anything. */
function startTimeOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ')[19]
  } catch {
    return undefined
  }
}
