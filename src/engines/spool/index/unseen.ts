import type { Ref } from '../../../base/task/ref.js'
import type { Found, Looker } from '../../../base/task/report.js'

/** Of a window; what comes behind them is looked at when it has come forward. */
const MOST = 10_000
const LOOKED_AT_ONCE = 1000
/** What is known of a newcomer is true after this time, and that of a look. */
const EVERY_MS = 1000

interface UnseenContext {
  /** How many refs are ready, and how many were ever given away. */
  counts(): { readonly ready: number; readonly given: number }
  /** The first of those that are ready, in about their order. */
  first(limit: number): Iterable<Ref>
  /** They were looked at: those that may not run now leave their place. @returns those that keep it */
  found(refs: readonly Ref[], found: readonly Found[]): readonly Ref[]
}

/**
 * Which of the ready refs nobody has looked at. A name does not say whether its task is due: a worker says so that claims it. While
 * none does, as all are busy, silent or paused, or there is none, somebody looks aside.
 */
export class Unseen {
  readonly #looker: Looker
  readonly #context: UnseenContext
  /** Those that may run now. */
  readonly #seen = new Set<Ref>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(looker: Looker, context: UnseenContext) {
    this.#looker = looker
    this.#context = context
  }

  /** How many of those that are ready have been looked at. */
  get seen(): number {
    return this.#seen.size
  }

  /** Something has become ready, or has come forward. */
  watch(): void {
    if (this.#timer !== undefined || this.#isClosed) return
    const { given } = this.#context.counts()
    this.#timer = setTimeout(() => void this.#turn(given), EVERY_MS).unref()
  }

  /** It is given away, or its file has changed. */
  forget(ref: Ref): void {
    if (this.#seen.size > 0) this.#seen.delete(ref)
    this.watch()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async #turn(givenBefore: number): Promise<void> {
    const { ready, given } = this.#context.counts()
    const pace = given - givenBefore // workers are about to look at as many
    const unseen =
      Math.min(ready, MOST) > pace ? [...this.#context.first(MOST)].filter(ref => !this.#seen.has(ref)) : []
    if (unseen.length > pace) await this.#look(unseen)
    this.#timer = undefined
    if (this.#context.counts().ready === 0)
      this.#seen.clear() // what was removed is of no more interest
    else if (pace + unseen.length > 0) this.watch()
  }

  async #look(unseen: readonly Ref[]): Promise<void> {
    for (let from = 0; from < unseen.length; from += LOOKED_AT_ONCE) {
      const refs = unseen.slice(from, from + LOOKED_AT_ONCE)
      const found = await this.#looker.look(refs)
      if (found === undefined || this.#isClosed) return
      if (this.#seen.size > MOST) this.#seen.clear()
      for (const ref of this.#context.found(refs, found)) this.#seen.add(ref)
    }
  }
}
