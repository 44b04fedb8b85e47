import { readFileSync } from 'node:fs'

/**
 * Programs that a worker runs for its tasks, each the leader of its own process group. When the worker is killed,
 * they have to be killed too: no other process would do it, and a task would run twice at once.
 */
export class WorkerChildren {
  /** The start time of each, in the kernel's clock ticks: a pid alone may have been reused. */
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

/** Field 22 of /proc/PID/stat. Field 2, the name, may contain any character, so the fields are counted from its end. */
function startTimeOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ')[19]
  } catch {
    return undefined
  }
}
