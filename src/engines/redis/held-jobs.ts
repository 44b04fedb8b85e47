import type { FeedReason } from '../../base/task/parked.js'
import type { Ref } from '../../base/task/ref.js'
import { type HeldJob, heldRef } from './refs.js'

/** The jobs whose locks a master has, because the workers that pulled them may not run them now. */
export class HeldJobs {
  readonly #waiting = new Map<FeedReason, HeldJob[]>()
  readonly #given = new Map<Ref, HeldJob>()

  /** How many wait to be given away, for one reason or for any. */
  count(reason?: FeedReason): number {
    if (reason !== undefined) return this.#waiting.get(reason)?.length ?? 0
    return [...this.#waiting.values()].reduce((sum, { length }) => sum + length, 0)
  }

  /** All, given away or not. */
  get all(): HeldJob[] {
    return [...this.#given.values(), ...[...this.#waiting.values()].flat()]
  }

  add(reason: FeedReason, job: HeldJob): void {
    const jobs = this.#waiting.get(reason) ?? []
    jobs.push(job)
    this.#waiting.set(reason, jobs)
  }

  /** For workers that may run them. */
  give(reason: FeedReason, limit: number): Ref[] {
    return (this.#waiting.get(reason)?.splice(0, limit) ?? []).map(job => {
      const ref = heldRef(job)
      this.#given.set(ref, job)
      return ref
    })
  }

  /** A worker no longer has this ref. @returns its job; undefined: it was a ticket */
  takeBack(ref: Ref): HeldJob | undefined {
    const job = this.#given.get(ref)
    this.#given.delete(ref)
    return job
  }

  /** Those that wait are no longer held. @param reason absent: for any reason */
  release(reason?: FeedReason): HeldJob[] {
    const reasons = reason === undefined ? [...this.#waiting.keys()] : [reason]
    return reasons.flatMap(each => {
      const jobs = this.#waiting.get(each) ?? []
      this.#waiting.delete(each)
      return jobs
    })
  }
}
