import type { Sight } from '../../formats/protocol/sight.js'
import { seenSnapshot } from '../../runtime/stats/seen-snapshot.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import type { DaemonLink } from './daemon-link.js'

/** What the daemon says, as one visitor may hear it. */
export class ReadableDaemon {
  readonly #daemon: DaemonLink
  readonly #sight: Sight

  constructor(daemon: DaemonLink, sight: Sight) {
    this.#daemon = daemon
    this.#sight = sight
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
    return seenSnapshot(await this.#daemon.snapshot(), this.#sight)
  }
}
