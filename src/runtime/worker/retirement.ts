import { closeSync, openSync } from 'node:fs'
import { messageOf } from '../../base/errors.js'
import type { RecycleReason } from '../../base/events/event-map.js'
import { setTimeout } from '../../base/own-clock.js'
import { isHandled, isLimit, type Report, type ReportKind } from '../../base/task/report.js'
import { treeMemoryOf } from '../../system/process-usage.js'
import type { WorkerMessage, WorkerOptions } from '../ipc/messages.js'

/** The shortest time between two looks at the memory, in ms, because a look at all threads and children costs ten short tasks. */
const LOOK_EVERY_MS = 100
/** How many descriptors it takes to settle a task, whatever its outcome. */
const NEEDED = 8
/** The kinds of reports that may result from a lack of descriptors. */
const TELLING: ReadonlySet<ReportKind> = new Set(['error', 'retry', 'unsettled', 'unreadable'])

interface RetirementOptions extends Pick<WorkerOptions, 'maxTasks' | 'memory'> {
  /** True if tasks are not claimed ahead. */
  readonly isOneByOne: boolean
}

/** Decides when a process has to retire: after its last task, with too much memory, or if the system refuses it something. */
export class Retirement {
  readonly #options: RetirementOptions
  readonly #lookAgain: () => void
  #handled = 0
  #reason: WorkerMessage | undefined
  #lookedAt = Number.NEGATIVE_INFINITY
  #next: NodeJS.Timeout | undefined

  /** @param lookAgain called when `look` is to be called again, because the last call was too early for a look at the memory */
  constructor(options: RetirementOptions, lookAgain: () => void) {
    this.#options = options
    this.#lookAgain = lookAgain
  }

  /** Why this process must run no more tasks, as a message to the master. Only the first reason counts. */
  get reason(): WorkerMessage | undefined {
    return this.#reason
  }

  /** Returns how many of `wanted` tasks may begin. @param underWay how many have begun and have not ended */
  room(wanted: number, underWay: number): number {
    const { maxTasks } = this.#options
    return maxTasks === 0 ? wanted : Math.min(wanted, maxTasks - this.#handled - underWay)
  }

  /** Call it when a task could not begin. */
  refused(report: Report): void {
    // tasks that are claimed ahead need descriptors of their own, so a count of the free ones proves nothing
    const limit = limitReached(report, this.#options.isOneByOne)
    if (limit !== undefined) this.#reason ??= { type: 'unfit', error: limit }
  }

  /** Call it when a task has ended, or a signal's handler that counts as one. */
  handled(): void {
    const { maxTasks } = this.#options
    this.#handled++
    if (maxTasks > 0 && this.#handled >= maxTasks) this.#recycle({ kind: 'tasks', limit: maxTasks })
    else this.look()
  }

  /** Call it when a run was settled. */
  settled(report: Report): void {
    this.refused(report)
    if (isHandled(report.kind)) this.handled()
  }

  /**
   * Checks whether the process has more memory than it may keep. Call it between tasks: a running one may give back what it has.
   */
  look(): void {
    const { memory } = this.#options
    if (memory.rssBytes === 0 && memory.vszBytes === 0) return
    const now = performance.now() // this clock starts with the process
    if (now < memory.minAgeMs) return
    const leftMs = this.#lookedAt + LOOK_EVERY_MS - now
    if (leftMs > 0) {
      this.#next ??= setTimeout(() => this.#lookNow(), leftMs).unref()
      return
    }
    this.#lookedAt = now
    const because = excess(memory)
    if (because !== undefined) this.#recycle(because)
  }

  #lookNow(): void {
    this.#next = undefined
    this.#lookAgain()
  }

  #recycle(because: RecycleReason): void {
    this.#reason ??= { type: 'recycling', because }
  }
}

function excess({ rssBytes, vszBytes }: WorkerOptions['memory']): RecycleReason | undefined {
  const memory = treeMemoryOf(process.pid)
  if (vszBytes > 0 && memory.vszBytes >= vszBytes)
    return { kind: 'as', bytes: memory.vszBytes, limit: vszBytes }
  if (rssBytes > 0 && memory.rssBytes >= rssBytes)
    return { kind: 'rss', bytes: memory.rssBytes, limit: rssBytes }
  return undefined
}

/**
 * Returns why this process cannot settle tasks any more, if it cannot. Call it for each report.
 *
 * @param isCheckable true if the number of free descriptors proves something
 */
function limitReached(report: Report, isCheckable: boolean): string | undefined {
  if (isLimit(report)) return report.detail
  if (!isCheckable || !TELLING.has(report.kind)) return undefined
  const fds: number[] = []
  try {
    while (fds.length < NEEDED) fds.push(openSync('/dev/null', 'r'))
    return undefined
  } catch (error) {
    return messageOf(error)
  } finally {
    for (const fd of fds) closeSync(fd)
  }
}
