import type { ChildProcess } from 'node:child_process'
import { type ForkOptions, forkWorker } from './fork-worker.js'

/**
 * A worker process that is forked before its options are known. Booting is most of a start, and happens while the master
 * loads the rest of the daemon.
 *
 * States: booting → taken | gone.
 */
export class SpareWorker {
  #child: ChildProcess | undefined

  constructor(options: ForkOptions) {
    try {
      this.#child = forkWorker(options)
      this.#child.on('error', () => {}) // the roster then forks a worker of its own, and reports the error
    } catch {} // out of memory or processes: the same
  }

  /** Hands over the process, once; undefined if it is gone or was taken. */
  take(): ChildProcess | undefined {
    const child = this.#child
    this.#child = undefined
    return child?.connected && child.exitCode === null && child.signalCode === null ? child : undefined
  }

  /** Kills the process if it was not taken. */
  end(): void {
    this.take()?.kill('SIGKILL')
  }
}
