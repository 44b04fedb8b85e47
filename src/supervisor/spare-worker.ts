import type { ChildProcess } from 'node:child_process'
import { type ForkOptions, forkWorker } from './fork-worker.js'

/**
 * A worker process that is forked before anybody knows what it is for: it boots, which is most of a start, while the
 * master is loaded and put together.
 *
 * States: booting → taken | gone.
 */
export class SpareWorker {
  #child: ChildProcess | undefined

  constructor(options: ForkOptions) {
    try {
      this.#child = forkWorker(options)
      this.#child.on('error', () => {}) // whoever needs a worker forks another one, and says why that fails
    } catch {} // no memory: as above
  }

  /** Its process, once; undefined when there is none, or none any more. */
  take(): ChildProcess | undefined {
    const child = this.#child
    this.#child = undefined
    return child?.connected && child.exitCode === null && child.signalCode === null ? child : undefined
  }

  /** Nobody took it, and nobody will. */
  end(): void {
    this.take()?.kill('SIGKILL')
  }
}
