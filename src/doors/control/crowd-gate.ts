/** The part of a `net.Server` that is used here. */
interface Listening {
  maxConnections: number
}

/** How many connections are let in within one window. */
const MOST = 64
const WINDOW_MS = 500

/**
 * Turns away a crowd that comes faster than this, and comes again. A connection that the server itself closes, before there is a
 * socket, costs a tenth of one that is served. Nothing of it has been read, so the client may safely try again.
 */
export class CrowdGate {
  readonly #now: () => number
  #came = 0
  #opensAt = 0

  /** @param now monotonic milliseconds */
  constructor(now = () => performance.now()) {
    this.#now = now
  }

  /** Counts a connection that was let in. Call it for each. */
  passed(server: Listening): void {
    const now = this.#now()
    if (now >= this.#opensAt) {
      this.#came = 0
      this.#opensAt = now + WINDOW_MS
    }
    if (++this.#came !== MOST) return
    server.maxConnections = 1 // Node 20 takes 0 for no limit
    setTimeout(() => {
      server.maxConnections = Number.POSITIVE_INFINITY
      this.#opensAt = 0 // timers are up to a millisecond early: connections within that time count for the next window
    }, this.#opensAt - now).unref()
  }
}
