import type { Emitter } from '../../base/events/emitter.js'
import type { PeriodicTask } from '../../base/task/schedule.js'
import { PeriodicSpool } from '../../runtime/periodic/spool.js'
import type { Place } from './plan.js'

/** The periodic tasks of an application. Each belongs to the first spool of its queue, if the application runs that queue. */
export class OwnPeriodicTasks {
  readonly #places: readonly Place[]
  readonly #sync: boolean
  readonly #events: Emitter
  readonly #spools = new Map<string, PeriodicSpool>()
  #isStopped = false

  /** @param sync true if each run has to be on disk before it may start */
  constructor(places: readonly Place[], sync: boolean, events: Emitter) {
    this.#places = places
    this.#sync = sync
    this.#events = events
  }

  /** Takes the periodic tasks that the workers of a spool have loaded. They replace those declared before. */
  declared(spool: string, tasks: readonly PeriodicTask[]): void {
    const place = this.#places.find(each => each.spool === spool)
    const first = this.#places.find(each => each.queue === place?.queue)
    if (this.#isStopped || place === undefined || place !== first) return
    const opened =
      this.#spools.get(spool) ?? new PeriodicSpool(spool, { ...place, sync: this.#sync }, this.#events)
    this.#spools.set(spool, opened)
    opened.set(tasks.filter(({ queue }) => queue === place.queue))
  }

  /** Resolves when no task is being stored any more. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(Array.from(this.#spools.values(), spool => spool.close()))
  }
}
