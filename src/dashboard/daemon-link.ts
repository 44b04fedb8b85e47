import { askDaemon, controlSocketsOf } from '../control/client.js'
import { readSnapshot } from '../stats/read-snapshot.js'
import type { DaemonSnapshot } from '../stats/snapshot.js'

/** However many look at pages, the daemon is asked this often at most. */
const SHARED_MS = 200

/** What the dashboard asks of its daemon: through a control socket, as every other client. */
export class DaemonLink {
  readonly #spools: readonly string[]
  readonly #pid: number
  #asked: { readonly snapshot: Promise<DaemonSnapshot>; readonly untilMs: number } | undefined

  /** @param spools their real paths @param pid which daemon, of those that run them */
  constructor(spools: readonly string[], pid: number) {
    this.#spools = spools
    this.#pid = pid
  }

  /** @throws Error for people, when it does not answer */
  snapshot(): Promise<DaemonSnapshot> {
    if (this.#asked === undefined || performance.now() >= this.#asked.untilMs)
      this.#asked = { snapshot: this.#take(), untilMs: performance.now() + SHARED_MS }
    return this.#asked.snapshot
  }

  /** Its sockets come and go, so they are looked up each time; several daemons may run one spool. */
  async #take(): Promise<DaemonSnapshot> {
    for (const path of this.#sockets()) {
      const snapshot = readSnapshot(await askDaemon(path, 'snapshot', {}).catch(() => undefined))
      if (snapshot?.daemon.pid === this.#pid) return snapshot
    }
    throw new Error('the daemon does not answer')
  }

  *#sockets(): Generator<string> {
    for (const spool of this.#spools)
      try {
        yield* controlSocketsOf(spool)
      } catch {} // its .spoold is gone, or not ours
  }
}
