import { ForkedPort, type ForkOptions } from './forked-port.js'

/**
 * A worker process that is forked before its options are known. Booting is most of a start, so it is done while the
 * master loads the rest of the daemon.
 *
 * States: booting → taken | gone.
 */
export class SpareWorker {
  #port: ForkedPort | undefined

  constructor(options: ForkOptions) {
    try {
      this.#port = new ForkedPort(options)
    } catch {} // out of memory or processes: the roster then forks a worker of its own, and reports the error
  }

  /** Hands over the process, once; undefined if it is gone or was taken. */
  take(): ForkedPort | undefined {
    const port = this.#port
    this.#port = undefined
    return port?.isAlive ? port : undefined
  }

  /** Kills the process if it was not taken. */
  end(): void {
    this.take()?.kill()
  }
}
