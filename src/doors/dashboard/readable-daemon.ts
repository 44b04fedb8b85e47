import type { Pause, PausedPair } from '../../base/task/pause.js'
import { HIDDEN, type Hide } from '../../formats/protocol/hide.js'
import { TASK_KEY } from '../../formats/protocol/named.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import type { Visitor } from './access/visitor.js'
import type { DaemonLink } from './daemon-link.js'

/** What the daemon says, as far as one visitor may hear it. */
export class ReadableDaemon {
  readonly #daemon: DaemonLink
  readonly #visitor: Visitor
  readonly #hide: Hide

  constructor(daemon: DaemonLink, visitor: Visitor, hide: Hide) {
    this.#daemon = daemon
    this.#visitor = visitor
    this.#hide = hide
  }

  get history(): DaemonLink['history'] {
    return this.#daemon.history
  }

  /** @throws Error for people */
  ask(verb: string, args: object): Promise<unknown> {
    return this.#daemon.ask(verb, args)
  }

  /** @throws Error for people */
  async snapshot(): Promise<DaemonSnapshot> {
    const snapshot = await this.#daemon.snapshot()
    const spools = snapshot.spools.map(spool => {
      const pauses = spool.paused.pauses.map(pause => this.#seen(pause))
      return { ...spool, paused: { ...spool.paused, pauses } }
    })
    return { ...snapshot, spools }
  }

  #seen(pause: Pause): Pause {
    return pause.pair === null ? pause : { ...pause, pair: this.#seenPair(pause.pair) }
  }

  /** A value of tasks is payload; but the name of a named task is that of a function. */
  #seenPair([key, value]: PausedPair): PausedPair {
    if (!this.#visitor.mayReadPayload) return [key, key === TASK_KEY ? value : HIDDEN]
    const { [key]: seen } = this.#hide.json(Object.fromEntries([[key, value]]))
    return [key, seen ?? HIDDEN]
  }
}
