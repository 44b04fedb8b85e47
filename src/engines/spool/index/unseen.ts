import type { Ref } from '../../../base/task/ref.js'
import type { Found, Looker } from '../../../base/task/report.js'
import type { Visit } from './window.js'

/** Of a window; what comes behind them is looked at when it has come forward. */
const MOST = 10_000
const LOOKED_AT_ONCE = 1000
/** What is known of a newcomer is true after this time, and that of a look. */
const EVERY_MS = 1000

interface UnseenContext {
  /** How many refs are ready. */
  count(): number
  /** Calls back with each of those that are ready, in about their order, until that returns false. */
  each(visit: Visit): void
  /** The first of them that are in no other place. */
  first(limit: number): readonly Ref[]
  /** They were looked at: those that are gone, or for later, leave their place. @returns those that keep it */
  found(refs: readonly Ref[], found: readonly Found[]): readonly Ref[]
}

export interface UnseenStats {
  readonly count: number
  /** Since when there has always been one; epoch ms. Null: there is none. */
  readonly sinceMs: number | null
}

/**
 * Which of the ready refs nobody has looked at. A name does not say whether its task is due: a worker says so that claims it. While
 * none does, as all are busy, silent or paused, or there is none, somebody looks aside.
 */
export class Unseen {
  readonly #looker: Looker
  readonly #context: UnseenContext
  /** Those that a worker is to claim, as before: they may run now, or are no tasks, and it says why. */
  readonly #seen = new Set<Ref>()
  /** The latter. */
  readonly #unreadable = new Set<Ref>()
  /** How many were ever given away. */
  #givenCount = 0
  /** The unreadable ones may have been removed, or replaced. */
  #isDoubtful = false
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  /** Since when there has always been one that nobody has looked at; epoch ms. */
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

  /** How many of those that are ready are no tasks. */
  get unreadable(): number {
    return this.#unreadable.size
  }

  get stats(): UnseenStats {
    const count = Math.max(0, this.#context.count() - this.#seen.size)
    return { count, sinceMs: count === 0 ? null : (this.#sinceMs ?? Date.now()) }
  }

  /** Something has become ready, or has come forward. */
  watch(): void {
    this.#sinceMs ??= Date.now()
    if (this.#timer !== undefined || this.#isClosed) return
    const given = this.#givenCount
    this.#timer = setTimeout(() => void this.#turn(given), EVERY_MS).unref()
  }

  /** It is given away. */
  given(ref: Ref): void {
    this.#givenCount++
    this.forget(ref)
  }

  /** Its file has changed. */
  forget(ref: Ref): void {
    this.#leave(ref)
    this.watch()
  }

  #leave(ref: Ref): void {
    if (this.#seen.size > 0) this.#seen.delete(ref)
    if (this.#unreadable.size > 0) this.#unreadable.delete(ref)
  }

  /** A scan has ended: it may have left out what is gone, and found what no event told. */
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
    const pace = this.#givenCount - givenBefore // workers are about to look at as many
    const isFast = Math.min(this.#context.count(), MOST) <= pace
    const unseen = isFast ? [] : this.#context.first(MOST).filter(ref => !this.#seen.has(ref))
    const again = this.#isDoubtful ? [...this.#unreadable] : []
    this.#isDoubtful = false
    await this.#look(unseen.length > pace ? [...again, ...unseen] : again)
    this.#timer = undefined
    const left = this.#context.count()
    if (left <= this.#seen.size) this.#sinceMs = undefined
    if (left === 0)
      this.#clear() // what was removed is of no more interest
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
      if (2 * due.length < refs.length) this.#sinceMs = Date.now() // the others may be for later, too
    }
  }

  #clear(): void {
    this.#seen.clear()
    this.#unreadable.clear()
  }
}
