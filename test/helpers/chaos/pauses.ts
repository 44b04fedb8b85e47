import { setTimeout } from 'node:timers/promises'
import { signalQuietly } from './kill.js'

/** Processes that stand still for a while. */
export class Pauses {
  readonly #pids = new Set<number>()

  /** @returns false when it stands still already, or is gone */
  pause(pid: number, ms: number): boolean {
    if (this.#pids.has(pid) || !signalQuietly(pid, 'SIGSTOP')) return false
    this.#pids.add(pid)
    setTimeout(ms).then(() => this.#end(pid))
    return true
  }

  endAll(): void {
    for (const pid of [...this.#pids]) this.#end(pid)
  }

  #end(pid: number): void {
    if (this.#pids.delete(pid)) signalQuietly(pid, 'SIGCONT')
  }
}
