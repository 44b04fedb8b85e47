import { toByteString } from '../base/task/ref.js'
import { isRedisAddress } from '../formats/protocol/redis-address.js'
import { openTaskStore } from './open-engine.js'
import { noteHiddenKeys, renewHiddenKeys } from './spool/hidden-keys.js'

/** How long to wait before the next attempt while Redis is away. */
const AGAIN_MS = 5000

/** Notes in spools which keys are hidden, for commands that look at tasks without the configuration. */
export class HiddenNotes {
  /** The number of the last call of `serve`. A later call, after a reload, ends the attempts of an earlier one. */
  #round = 0
  #keys: readonly string[] = []

  /** @param spools real paths, and names on Redis */
  serve(spools: readonly string[], keys: readonly string[]): void {
    this.#round++
    this.#keys = keys
    for (const spool of spools)
      if (isRedisAddress(spool)) void this.#note(spool, keys, this.#round)
      else noteHiddenKeys(toByteString(spool), keys)
  }

  /** Notes the keys again in a directory where the note cannot be trusted any more. */
  renew(spool: string): void {
    if (!isRedisAddress(spool)) renewHiddenKeys(toByteString(spool), this.#keys)
  }

  async #note(spool: string, keys: readonly string[], round: number): Promise<void> {
    if (round !== this.#round) return
    try {
      await (await openTaskStore(spool)).noteHidden?.(keys)
    } catch {
      setTimeout(() => void this.#note(spool, keys, round), AGAIN_MS).unref()
    }
  }
}
