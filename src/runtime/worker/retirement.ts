import type { RecycleReason } from '../../base/task/recycle-reason.js'
import { isHandled, type Report } from '../../base/task/report.js'
import type { WorkerMessage } from '../ipc/messages.js'
import { limitReached } from './limits.js'
import { MemoryLimit, type MemoryLimitOptions } from './memory-limit.js'

/** When a worker asks for its successor. */
export interface RecyclingOptions {
  /** 0: after any number. */
  readonly maxTasks: number
  readonly memory: MemoryLimitOptions
}

/** Decides when a process has to leave: it has run as many tasks as it may, has too much memory, or the system refuses it something. */
export class Retirement {
  readonly #options: RecyclingOptions
  readonly #memory: MemoryLimit
  #handled = 0
  #reason: WorkerMessage | undefined

  /** @param look it is time for `look` */
  constructor(options: RecyclingOptions, look: () => void) {
    this.#options = options
    this.#memory = new MemoryLimit(options.memory, look)
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
    const { maxTasks } = this.#options
    this.#handled++
    if (maxTasks > 0 && this.#handled >= maxTasks) this.#recycle({ kind: 'tasks', limit: maxTasks })
    else this.look()
  }

  /** Looks at its memory. Only between tasks: one that runs may give back what it has. */
  look(): void {
    const because = this.#memory.check()
    if (because !== undefined) this.#recycle(because)
  }

  /** A run was settled. */
  settled(report: Report, isOneByOne: boolean): void {
    this.refused(report, isOneByOne)
    if (isHandled(report.kind)) this.handled()
  }

  #recycle(because: RecycleReason): void {
    this.#reason ??= { type: 'recycling', because }
  }
}
