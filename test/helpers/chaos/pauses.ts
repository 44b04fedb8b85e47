import { setTimeout } from 'node:timers/promises'
import { signalQuietly } from './kill.js'

/** Processes stopped for a limited time. */
export class Pauses {
  /** Keyed by pid. The symbol identifies the pause, because a later one of the same process ends at another time. */
  readonly #pids = new Map<number, symbol>()

  /** @returns false if the process is already stopped, or is gone */
  pause(pid: number, ms: number): boolean {
    if (this.#pids.has(pid) || !signalQuietly(pid, 'SIGSTOP')) return false
    const pause = Symbol()
    this.#pids.set(pid, pause)
    setTimeout(ms).then(() => this.#pids.get(pid) === pause && this.#end(pid))
    return true
  }

  /** Keeps the process stopped for good. */
  forget(pid: number): void {
    this.#pids.delete(pid)
  }

  endAll(): void {
    for (const pid of [...this.#pids.keys()]) this.#end(pid)
  }

  #end(pid: number): void {
    if (this.#pids.delete(pid)) signalQuietly(pid, 'SIGCONT')
  }
}
