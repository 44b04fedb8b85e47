/** What a `net.Server` has. */
interface Listening {
  maxConnections: number
}

/** So many connections are let in within one window. */
const MOST = 64
const WINDOW_MS = 500

/**
 * Turns a crowd away that comes faster than this, and comes again. What the server itself closes, before there is a socket, costs
 * a tenth of a connection that is served. Nothing of it has been read, so who is turned away may safely try again.
 */
export class CrowdGate {
  readonly #now: () => number
  #came = 0
  #opensAt = 0

  /** @param now monotonic milliseconds */
  constructor(now = () => performance.now()) {
    this.#now = now
  }

  /** To be called for each connection that was let in. */
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
      this.#opensAt = 0 // timers are early by up to a millisecond: who comes within it counts for the next window
    }, this.#opensAt - now).unref()
  }
}
