import { openTaskStore } from '../../engines/open-engine.js'

/** So often it is tried again while Redis is away. */
const AGAIN_MS = 5000

/** Leaves in spools on Redis which keys are hidden, for commands that look at tasks without the configuration. */
export class HiddenOnRedis {
  /** A reload begins the next one. */
  #round = 0

  serve(spools: readonly string[], keys: readonly string[]): void {
    this.#round++
    for (const spool of spools) void this.#note(spool, keys, this.#round)
  }

  async #note(spool: string, keys: readonly string[], round: number): Promise<void> {
    if (round !== this.#round) return
    try {
      await (await openTaskStore(spool)).noteHidden(keys)
    } catch {
      setTimeout(() => void this.#note(spool, keys, round), AGAIN_MS).unref()
    }
  }
}
