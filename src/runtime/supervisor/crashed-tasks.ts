import { Alarm } from '../../base/clock.js'
import type { Ref } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { Feed } from '../../engines/feed.js'
import type { WorkerProcess } from './worker-process.js'

/**
 * If each of them crashes again, one of them begins in so many times of what the start of its process took of a processor: with its end,
 * and what the master does, that stays below a fifth of one.
 */
const STARTS = 15
/** One that takes longer, or is not known to, is no reason to wait longer. */
const MOST_MS = 30_000
/** While others are always due, one of them runs this often. */
const OVERDUE_MS = 60_000

/**
 * When those tasks run that have crashed their process: when nothing else is due, so that no other waits for one of them, and at a pace
 * that leaves the processor to others. What runs and does not crash costs no time.
 */
export class CrashedTasks {
  readonly #feed: Feed
  readonly #alarm: Alarm
  #notBefore = 0
  /** Since when one of them could run and none was given; undefined: none can. */
  #waitingSince: number | undefined
  /** What the workers were charged that run one now. */
  readonly #charges = new WeakMap<WorkerProcess, number>()

  /** @param wake called when the next one may run */
  constructor(feed: Feed, wake: () => void) {
    this.#feed = feed
    this.#alarm = new Alarm(wake)
  }

  /** One may run now. */
  get isReady(): boolean {
    const now = performance.now()
    const isWaiting = this.#feed.state.parked.crashed > 0
    if (isWaiting && now >= this.#notBefore) {
      this.#waitingSince ??= now
      return true
    }
    if (isWaiting) this.#alarm.wakeAt(this.#notBefore)
    this.#waitingSince = undefined // at their own pace they wait for nobody
    return false
  }

  /** They have waited so long for others that one of them goes first. */
  get isOverdue(): boolean {
    return this.isReady && performance.now() - (this.#waitingSince ?? 0) > OVERDUE_MS
  }

  /** @param worker runs nothing, and one task at a time */
  takeFor(worker: WorkerProcess): Ref | undefined {
    if (!this.isReady) return undefined
    const [ref] = this.#feed.take(1, 'crashed')
    if (ref === undefined) return undefined
    const charge = Math.min(MOST_MS, STARTS * worker.startCostMs)
    this.#charges.set(worker, charge)
    this.#waitingSince = undefined
    this.#notBefore = Math.max(this.#notBefore, performance.now()) + charge
    return ref
  }

  /** Call it when a worker has reported something. One that has crashed reports nothing more. */
  reported(worker: WorkerProcess, reports: readonly Report[]): void {
    const charge = this.#charges.get(worker)
    if (charge === undefined) return
    this.#charges.delete(worker)
    if (!reports.some(hasCrashed)) this.#notBefore -= charge
  }

  close(): void {
    this.#alarm.clear()
  }
}

/** Its interpreter has crashed: the worker has counted that. */
function hasCrashed({ kind }: Report): boolean {
  return kind === 'later' || kind === 'buried' || kind === 'set-aside'
}
