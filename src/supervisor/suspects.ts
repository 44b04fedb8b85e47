import { Queue } from '../base/queue.js'
import type { Engine } from '../engines/engine.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'

/** Where workers are fed from: an engine, or what has to run alone. */
export interface Feed {
  readonly ready: number
  /** The most urgent, at most `limit`. */
  due(limit: number): readonly Ref[]
  done(refs: readonly Ref[]): void
  returned(reports: readonly Report[]): void
  abandoned(refs: readonly Ref[]): void
}

/** What is due, but for what has to run alone: that goes to the suspects. */
export class EngineFeed implements Feed {
  readonly #engine: Engine
  readonly #suspects: Suspects

  constructor(engine: Engine, suspects: Suspects) {
    this.#engine = engine
    this.#suspects = suspects
  }

  get ready(): number {
    return this.#engine.counts().ready
  }

  due(limit: number): readonly Ref[] {
    return this.#engine.due(limit)
  }

  done(refs: readonly Ref[]): void {
    this.#engine.done(refs)
  }

  returned(reports: readonly Report[]): void {
    if (!reports.some(isForAlone)) return this.#engine.returned(reports)
    for (const report of reports) if (isForAlone(report)) this.#suspects.add(report.ref)
    this.#engine.returned(reports.filter(report => !isForAlone(report)))
  }

  abandoned(refs: readonly Ref[]): void {
    this.#engine.abandoned(refs)
  }
}

function isForAlone({ kind }: Report): boolean {
  return kind === 'alone'
}

/**
 * Tasks that began beside others when their process died. Nobody knows which of them it was, so none is counted, and each
 * runs alone the next time. For the engine they are with a worker.
 */
export class Suspects implements Feed {
  readonly #engine: Engine
  readonly #waiting = new Queue<Ref>()
  #given = 0

  constructor(engine: Engine) {
    this.#engine = engine
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

  due(limit: number): readonly Ref[] {
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
    this.#engine.done(refs)
  }

  returned(reports: readonly Report[]): void {
    this.#given -= reports.length
    this.#engine.returned(reports)
  }

  abandoned(refs: readonly Ref[]): void {
    this.#given -= refs.length
    this.#engine.abandoned(refs)
  }
}
