import { Group, type GroupContext } from './group.js'
import { IdleTimer } from './idle-timer.js'
import type { Lane } from './lane.js'
import { aloneOptions, type PoolOptions } from './pool-options.js'

/** How long it is kept without such tasks. */
const IDLE_MS = 1000

/** One worker that runs one task at a time, while there are tasks that have to run alone. */
export class Alone {
  readonly group: Group
  readonly #lane: Lane
  readonly #idleTimer = new IdleTimer(() => this.dismiss(), IDLE_MS)

  constructor(options: PoolOptions, context: GroupContext) {
    this.#lane = context.lane
    this.group = new Group(aloneOptions(options), context)
  }

  /** They apply to workers that are spawned from now on. */
  set options(options: PoolOptions) {
    this.group.roster.options = aloneOptions(options)
  }

  /** How many tasks it has. */
  get busy(): number {
    let busy = 0
    for (const { work } of this.group.roster.workers) busy += work.outstanding
    return busy
  }

  dispatch(): void {
    const { roster, feeder } = this.group
    const isWanted = this.#lane.ready > 0 || this.#lane.crashed?.isReady === true
    if (isWanted) {
      roster.target = 1
      roster.fill()
    } else if (roster.workers.size === 0) return
    feeder.dispatch()
    this.#idleTimer.look(!isWanted && this.busy === 0)
  }

  /** It finishes what it runs. */
  dismiss(): void {
    const { roster } = this.group
    roster.target = 0
    for (const worker of roster.workers) if (worker.state !== 'draining') void roster.dismiss(worker)
  }

  close(): void {
    this.#idleTimer.clear()
  }
}
