import { Queue } from '../base/queue.js'
import type { Feed } from '../engines/feed.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'

/** Where workers get their tasks from: the spool's feed, or what has to run alone. */
export interface Supply {
  readonly ready: number
  /** The most urgent, at most `limit`. */
  take(limit: number): readonly Ref[]
  done(refs: readonly Ref[]): void
  returned(reports: readonly Report[]): void
  abandoned(refs: readonly Ref[]): void
}

/** What is due, but for what has to run alone: that goes to the suspects. */
export class SpoolSupply implements Supply {
  readonly #feed: Feed
  readonly #suspects: Suspects

  constructor(feed: Feed, suspects: Suspects) {
    this.#feed = feed
    this.#suspects = suspects
  }

  get ready(): number {
    return this.#feed.counts().ready
  }

  take(limit: number): readonly Ref[] {
    return this.#feed.take(limit)
  }

  done(refs: readonly Ref[]): void {
    this.#feed.done(refs)
  }

  returned(reports: readonly Report[]): void {
    if (!reports.some(isForAlone)) return this.#feed.returned(reports)
    for (const report of reports) if (isForAlone(report)) this.#suspects.add(report.ref)
    this.#feed.returned(reports.filter(report => !isForAlone(report)))
  }

  abandoned(refs: readonly Ref[]): void {
    this.#feed.abandoned(refs)
  }
}

function isForAlone({ kind, reason }: Report): boolean {
  return kind === 'parked' && reason === 'alone'
}

/**
 * Tasks that began beside others when their process died. Nobody knows which of them it was, so none is counted, and each
 * runs alone the next time. For the feed they are with a worker.
 */
export class Suspects implements Supply {
  readonly #feed: Feed
  readonly #waiting = new Queue<Ref>()
  #given = 0

  constructor(feed: Feed) {
    this.#feed = feed
  }

  /** Those that wait, and those that run. */
  get size(): number {
    return this.#waiting.size + this.#given
  }

  get ready(): number {
    return this.#waiting.size
  }

  add(ref: Ref): void {
    this.#waiting.push(ref)
  }

  take(limit: number): readonly Ref[] {
    const refs: Ref[] = []
    while (refs.length < limit) {
      const ref = this.#waiting.pop()
      if (ref === undefined) break
      refs.push(ref)
    }
    this.#given += refs.length
    return refs
  }

  done(refs: readonly Ref[]): void {
    this.#given -= refs.length
    this.#feed.done(refs)
  }

  returned(reports: readonly Report[]): void {
    this.#given -= reports.length
    this.#feed.returned(reports)
  }

  abandoned(refs: readonly Ref[]): void {
    this.#given -= refs.length
    this.#feed.abandoned(refs)
  }
}
