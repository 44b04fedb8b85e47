import type { Ref } from '../../../base/task/ref.js'
import type { Found, Looker } from '../../../base/task/report.js'
import type { Visit } from '../window.js'

/** The maximum number of ready refs that are looked at. Refs behind them are looked at once they have come forward. */
const MOST = 10_000
const LOOKED_AT_ONCE = 1000
/** The time between two looks: figures of a new ref are right after this time, and that of a look. */
const EVERY_MS = 1000

interface UnseenContext {
  /** How many refs are ready. */
  count(): number
  /** Calls back with each ready ref, in about their order, until `visit` returns false. */
  each(visit: Visit): void
  /** Returns, of the first `limit` ready refs, those that are in no other place. */
  first(limit: number): readonly Ref[]
  /**
   * Takes in what a look found. Refs whose file is gone, or that are for later, leave their place.
   *
   * @returns the refs that stay ready
   */
  found(refs: readonly Ref[], found: readonly Found[]): readonly Ref[]
}

export interface UnseenStats {
  readonly count: number
  /** Since when there has always been an unseen ref; epoch ms. Null if there is none. */
  readonly sinceMs: number | null
}

/**
 * Knows which of the ready refs are unseen. A name does not say whether its task is due; the worker that claims the task does.
 * While no worker does, because all are busy, silent or paused, or there is none, somebody looks aside.
 */
export class Unseen {
  readonly #looker: Looker
  readonly #context: UnseenContext
  /**
   * The refs that were looked at, and that a worker is still to claim: they may run now, or their file is not a task, and the
   * worker says why.
   */
  readonly #seen = new Set<Ref>()
  /** The seen refs whose file is not a task. */
  readonly #unreadable = new Set<Ref>()
  /** The number of refs that were ever given to workers. */
  #givenCount = 0
  /** True if unreadable files may have been removed or replaced since the last look. */
  #isDoubtful = false
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  /** Since when there has always been an unseen ref; epoch ms. Undefined if there is none. */
  #sinceMs: number | undefined

  constructor(looker: Looker, context: UnseenContext) {
    this.#looker = looker
    this.#context = context
  }

  has(ref: Ref): boolean {
    return !this.#seen.has(ref)
  }

  isUnreadable(ref: Ref): boolean {
    return this.#unreadable.has(ref)
  }

  /** The number of ready refs whose file is not a task. */
  get unreadable(): number {
    return this.#unreadable.size
  }

  get stats(): UnseenStats {
    const count = Math.max(0, this.#context.count() - this.#seen.size)
    return { count, sinceMs: count === 0 ? null : (this.#sinceMs ?? Date.now()) }
  }

  /** Sets the timer of the next look. Call it when a ref has become ready, or has come forward. */
  watch(): void {
    this.#sinceMs ??= Date.now()
    if (this.#timer !== undefined || this.#isClosed) return
    const given = this.#givenCount
    this.#timer = setTimeout(() => void this.#turn(given), EVERY_MS).unref()
  }

  /** Takes note that a ref was given to a worker. */
  given(ref: Ref): void {
    this.#givenCount++
    this.forget(ref)
  }

  /** Makes a ref unseen, because its file has changed. */
  forget(ref: Ref): void {
    this.#leave(ref)
    this.watch()
  }

  #leave(ref: Ref): void {
    if (this.#seen.size > 0) this.#seen.delete(ref)
    if (this.#unreadable.size > 0) this.#unreadable.delete(ref)
  }

  /** Takes note of the end of a scan, which may have left out refs whose file is gone, and met changes of which no event told. */
  doubt(): void {
    if (this.#seen.size > 0) this.#leaveGone()
    if (this.#unreadable.size === 0) return
    this.#isDoubtful = true
    this.watch()
  }

  #leaveGone(): void {
    const there = new Set<Ref>()
    this.#context.each(ref => {
      if (this.#seen.has(ref)) there.add(ref)
      return there.size < this.#seen.size
    })
    for (const ref of this.#seen) if (!there.has(ref)) this.#leave(ref)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  async #turn(givenBefore: number): Promise<void> {
    const pace = this.#givenCount - givenBefore // workers will look at about as many until the next turn
    const isFast = Math.min(this.#context.count(), MOST) <= pace
    const unseen = isFast ? [] : this.#context.first(MOST).filter(ref => !this.#seen.has(ref))
    const again = this.#isDoubtful ? [...this.#unreadable] : []
    this.#isDoubtful = false
    await this.#look(unseen.length > pace ? [...again, ...unseen] : again)
    this.#timer = undefined
    const left = this.#context.count()
    if (left <= this.#seen.size) this.#sinceMs = undefined
    if (left === 0)
      // what is known of removed files is of no more interest
      this.#clear()
    else if (pace + unseen.length > 0) this.watch()
  }

  async #look(all: readonly Ref[]): Promise<void> {
    for (let from = 0; from < all.length; from += LOOKED_AT_ONCE) {
      const refs = all.slice(from, from + LOOKED_AT_ONCE)
      const found = await this.#looker.look(refs)
      if (found === undefined || this.#isClosed) return
      if (this.#seen.size > MOST) this.#clear()
      const due = this.#context.found(refs, found)
      for (const ref of refs) this.#leave(ref)
      for (const ref of due) this.#seen.add(ref)
      for (const [place, ref] of refs.entries())
        if (found[place] === 'unreadable' && this.#seen.has(ref)) this.#unreadable.add(ref)
      // most were not due, so the other refs may be for later, too
      if (2 * due.length < refs.length) this.#sinceMs = Date.now()
    }
  }

  #clear(): void {
    this.#seen.clear()
    this.#unreadable.clear()
  }
}
