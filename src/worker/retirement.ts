import type { WorkerMessage } from '../ipc/messages.js'
import { isHandled, type Report } from '../task/report.js'
import { limitReached } from './limits.js'
import { type RecyclingOptions, recycleReason } from './recycling.js'

/** Decides when a process has to leave: it has run as many tasks as it may, has too much memory, or the system refuses it something. */
export class Retirement {
  readonly #options: RecyclingOptions
  #handled = 0
  #reason: WorkerMessage | undefined

  constructor(options: RecyclingOptions) {
    this.#options = options
  }

  /** Why it must run no more tasks, for the master. Only the first reason counts. */
  get reason(): WorkerMessage | undefined {
    return this.#reason
  }

  /** How many of `wanted` tasks may begin. @param underWay how many have begun and have not ended */
  room(wanted: number, underWay: number): number {
    const { maxTasks } = this.#options
    return maxTasks === 0 ? wanted : Math.min(wanted, maxTasks - this.#handled - underWay)
  }

  /** A task could not begin. @param isOneByOne tasks are not claimed ahead */
  refused(report: Report, isOneByOne: boolean): void {
    // tasks that are claimed ahead need descriptors of their own, so a count of the free ones proves nothing
    const limit = limitReached(report, isOneByOne)
    if (limit !== undefined) this.#reason ??= { type: 'unfit', error: limit }
  }

  /** A task ended, or a signal's handler that counts as one. */
  handled(): void {
    const because = recycleReason(++this.#handled, this.#options)
    if (because !== undefined) this.#reason ??= { type: 'recycling', because }
  }

  /** A run was settled. */
  settled(report: Report, isOneByOne: boolean): void {
    this.refused(report, isOneByOne)
    if (isHandled(report.kind)) this.handled()
  }
}
