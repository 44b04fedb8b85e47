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
  /** Some were looked at. Those that may not run now are to leave their place. */
  found(refs: readonly Ref[], found: readonly Found[]): void
}

/**
 * Which of the ready refs nobody has looked at. A name does not say whether its task is due: a worker says so that claims it. While
 * none does, as all are busy, silent or paused, or there is none, somebody looks aside.
 */
export class Unseen {
  readonly #context: UnseenContext
  readonly #looker: Looker
  readonly #timer: NodeJS.Timeout
  /** Those that may run now. */
  readonly #seen = new Set<Ref>()
  #given = 0
  #isLooking = false

  constructor(looker: Looker, context: UnseenContext) {
    this.#looker = looker
    this.#context = context
    this.#timer = setInterval(() => void this.#look(), EVERY_MS).unref()
  }

  /** How many of those that are ready have been looked at. */
  get seen(): number {
    return this.#seen.size
  }

  /** It is given away, or its file has changed. */
  forget(ref: Ref): void {
    if (this.#seen.size > 0) this.#seen.delete(ref)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #look(): Promise<void> {
    const { ready, given } = this.#context.counts()
    const pace = given - this.#given
    this.#given = given
    if (ready === 0) this.#seen.clear() // of what was removed, too
    if (ready <= pace || this.#isLooking) return // workers are about to look at them
    const unseen: Ref[] = []
    let left = MOST
    for (const ref of this.#context.first(MOST)) {
      if (!this.#seen.has(ref)) unseen.push(ref)
      if (--left === 0) break
    }
    if (unseen.length <= pace) return
    this.#isLooking = true
    for (let from = 0; from < unseen.length; from += LOOKED_AT_ONCE) {
      const refs = unseen.slice(from, from + LOOKED_AT_ONCE)
      const found = await this.#looker.look(refs)
      if (found === undefined) break
      this.#note(refs, found)
      this.#context.found(refs, found)
    }
    this.#isLooking = false
  }

  #note(refs: readonly Ref[], found: readonly Found[]): void {
    if (this.#seen.size > 2 * MOST) this.#seen.clear()
    for (const [place, ref] of refs.entries()) if (mayRun(found[place])) this.#seen.add(ref)
  }
}

/** One that is gone, or locked, is no more looked at: a listing or a worker finds what becomes of it. */
function mayRun(found: Found | undefined): boolean {
  return found === 'due' || found === 'locked' || found === 'gone'
}
