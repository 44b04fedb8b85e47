import { Alarm } from '../../base/clock.js'
import type { Ref } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { Feed } from '../../engines/feed.js'
import type { WorkerProcess } from './worker-process.js'

/**
 * The pace of tasks that crash again and again: one begins per this many times the processor time of a process start. Including the
 * end of the process and the master's work, they then use less than a fifth of a processor.
 */
const STARTS = 15
/** The longest pause between two such tasks. */
const MOST_MS = 30_000
/** While other tasks are always due, one task that has crashed runs this often. */
const OVERDUE_MS = 60_000

/**
 * Decides when the tasks that have crashed their process run: when nothing else is due, so that no other task waits for one of them,
 * and at a pace that leaves the processor to others. A task that runs without a crash does not count against the pace.
 */
export class CrashedTasks {
  readonly #feed: Feed
  readonly #alarm: Alarm
  #notBefore = 0
  /** Since when one of them could have run and none was given; undefined: none can. */
  #waitingSince: number | undefined
  /** The time charged for the task that each worker now runs; milliseconds. */
  readonly #charges = new WeakMap<WorkerProcess, number>()

  /** @param wake called when the next one may run */
  constructor(feed: Feed, wake: () => void) {
    this.#feed = feed
    this.#alarm = new Alarm(wake)
  }

  /** True if one of them may run now. */
  get isReady(): boolean {
    const now = performance.now()
    const isWaiting = this.#feed.state.parked.crashed > 0
    if (isWaiting && now >= this.#notBefore) {
      this.#waitingSince ??= now
      return true
    }
    if (isWaiting) this.#alarm.wakeAt(this.#notBefore)
    this.#waitingSince = undefined // they wait for their own pace, not for other tasks
    return false
  }

  /** True if they have waited for other tasks so long that one of them goes first. */
  get isOverdue(): boolean {
    return this.isReady && performance.now() - (this.#waitingSince ?? 0) > OVERDUE_MS
  }

  /** @param worker an idle worker that runs one task at a time */
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

  /** Call it when a worker has reported something. A worker that has crashed reports nothing more. */
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

/** True if the task's interpreter has crashed: the worker has counted that. */
function hasCrashed({ kind }: Report): boolean {
  return kind === 'later' || kind === 'buried' || kind === 'set-aside'
}
