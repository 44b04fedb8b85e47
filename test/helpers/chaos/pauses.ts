import { setTimeout } from 'node:timers/promises'
import { signalQuietly } from './kill.js'

/** Processes that stand still for a while. */
export class Pauses {
  /** Each with its own pause: a later one of the same process has another end. */
  readonly #pids = new Map<number, symbol>()

  /** @returns false when it stands still already, or is gone */
  pause(pid: number, ms: number): boolean {
    if (this.#pids.has(pid) || !signalQuietly(pid, 'SIGSTOP')) return false
    const pause = Symbol()
    this.#pids.set(pid, pause)
    setTimeout(ms).then(() => this.#pids.get(pid) === pause && this.#end(pid))
    return true
  }

  /** It stands still for good, and is not to be woken up. */
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
