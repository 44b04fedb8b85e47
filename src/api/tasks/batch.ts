import { describe, SpooldError } from '../../base/errors.js'
import { BatchError, type BatchResult } from '../../engines/client/batch.js'
import { forgetTargets } from '../../engines/client/target.js'
import type { Enqueuer } from '../../engines/enqueuer.js'
import { validated } from '../../runtime/tasks/arguments.js'
import { type CallOptions, knownOptions, timeOf, type When } from '../../runtime/tasks/call-options.js'
import { type Call, enqueueThrough, layersOf } from '../../runtime/tasks/onion.js'
import type { AnyFunction, TaskEntry } from '../../runtime/tasks/registry.js'
import type { ScheduledTask } from '../../runtime/tasks/scheduled-task.js'
import { type CheckedCall, checked } from './schedule.js'
import type { Scheduler } from './scheduler.js'

export interface TaskBatchOptions extends CallOptions {
  /** If true, and a task cannot be stored, no task of the batch for the same spool is. Default: false. */
  readonly allOrNothing?: boolean
}

interface Waiting {
  readonly task: unknown
  /** Absent: the task is due now. */
  readonly at?: When
  readonly args: readonly unknown[]
}

/**
 * Many named tasks. All are checked before any is stored, and they are stored with one sync per spool.
 *
 * ```ts
 * const batch = new TaskBatch()
 * for (let i = 0; i < 100; i++) batch.schedule(compute, i)
 * await tasks.scheduleBatch(batch)
 * ```
 */
export class TaskBatch {
  readonly #options: TaskBatchOptions
  readonly #waiting: Waiting[] = []
  #isUsed = false

  /** @param options hold for every task of the batch @throws SpooldError REQUEST_INVALID for an unknown option */
  constructor(options: TaskBatchOptions = {}) {
    this.#options = knownOptions(options, 'allOrNothing')
  }

  /** The number of tasks in the batch. */
  get size(): number {
    return this.#waiting.length
  }

  /** Adds a task. Nothing is checked or stored yet. @throws SpooldError BATCH_USED if the batch has been scheduled */
  schedule<Args extends readonly unknown[]>(task: Scheduler<Args>, ...args: Args): this
  schedule<Args extends readonly unknown[]>(task: (...args: Args) => unknown, ...args: Args): this
  schedule(task: string, ...args: readonly unknown[]): this
  schedule(task: Scheduler<never> | AnyFunction | string, ...args: readonly unknown[]): this {
    return this.#add({ task, args })
  }

  /**
   * Adds a task that runs at this time or later.
   *
   * @param at a Date, epoch seconds, ISO 8601 text, or `+1h30m`
   * @throws SpooldError ARGUMENTS_INVALID if `at` is not a time, BATCH_USED if the batch has been scheduled
   */
  scheduleAt<Args extends readonly unknown[]>(task: Scheduler<Args>, at: When, ...args: Args): this
  scheduleAt<Args extends readonly unknown[]>(task: (...args: Args) => unknown, at: When, ...args: Args): this
  scheduleAt(task: string, at: When, ...args: readonly unknown[]): this
  scheduleAt(task: Scheduler<never> | AnyFunction | string, at: When, ...args: readonly unknown[]): this {
    return this.#add({ task, at: timeOf(at), args })
  }

  #add(waiting: Waiting): this {
    this.#refuseUsed()
    this.#waiting.push(waiting)
    return this
  }

  #refuseUsed(): void {
    if (this.#isUsed)
      throw new SpooldError(
        'BATCH_USED',
        'this batch has been scheduled: make a new TaskBatch for other tasks',
      )
  }

  /** @internal Called by `storeBatch`. */
  async store(find: (task: unknown) => TaskEntry): Promise<ScheduledTask[]> {
    this.#refuseUsed()
    const { allOrNothing = false, ...options } = this.#options
    const calls = this.#waiting.map(({ task, at, args }): Call => ({ entry: find(task), at, args, options }))
    return throughMiddleware(calls, async within => {
      const checkedCalls = within.map(checked)
      for (const { entry, args } of within)
        if (entry.definition.schema !== undefined) await validated(entry.name, entry.definition.schema, args)
      this.#refuseUsed() // the batch may have been scheduled while the schemas ran
      this.#isUsed = true
      return storeAll(checkedCalls, allOrNothing)
    })
  }
}

/**
 * Stores a batch.
 *
 * @param batch made by this copy of the package or another one
 * @param find finds a task, or throws TASK_UNKNOWN
 * @throws SpooldError ARGUMENTS_INVALID if `batch` is not a batch
 */
export async function storeBatch(
  batch: TaskBatch,
  find: (task: unknown) => TaskEntry,
): Promise<ScheduledTask[]> {
  if (typeof (batch as Partial<TaskBatch> | undefined)?.store === 'function') return batch.store(find)
  throw new SpooldError('ARGUMENTS_INVALID', `expected a TaskBatch, got ${describe(batch)}`)
}

/**
 * Takes each call through its middleware. All calls meet behind the innermost layer, and are stored together there. If any is
 * refused on its way, none is stored.
 *
 * @param storeAll stores the calls that have reached the innermost layer
 */
async function throughMiddleware(
  calls: readonly Call[],
  storeAll: (calls: readonly Call[]) => Promise<ScheduledTask[]>,
): Promise<ScheduledTask[]> {
  const layers = calls.map(({ entry }) => layersOf(entry.registry, 'enqueue'))
  if (layers.every(({ length }) => length === 0)) return storeAll(calls)
  const meeting = new Meeting(calls.length, storeAll)
  const ways = calls.map((call, i) =>
    meeting.hear(
      i,
      enqueueThrough(layers[i] ?? [], call, each => meeting.join(i, each)),
    ),
  )
  const ends = await Promise.allSettled(ways)
  const refused = ends.find(end => end.status === 'rejected')
  if (meeting.error !== undefined) throw meeting.error
  if (refused !== undefined) throw refused.reason
  return ends.flatMap(end => (end.status === 'fulfilled' ? [end.value] : []))
}

async function storeAll(calls: readonly CheckedCall[], isAllOrNothing: boolean): Promise<ScheduledTask[]> {
  const bySpool = new Map<Enqueuer, number[]>()
  for (const [i, { enqueuer }] of calls.entries()) {
    const places = bySpool.get(enqueuer) ?? []
    bySpool.set(enqueuer, places)
    places.push(i)
  }
  const results: BatchResult[] = []
  await Promise.all(
    [...bySpool].map(async ([enqueuer, places]) => {
      const requests = places.flatMap(i => calls[i]?.request ?? [])
      const stored = await enqueuer.storeAll(requests, isAllOrNothing)
      for (const [place, i] of places.entries()) results[i] = stored[place] as BatchResult
    }),
  )
  const tasks = calls.flatMap(({ scheduled }, i) => {
    const result = results[i]
    return result !== undefined && 'stored' in result ? [scheduled(result.stored)] : []
  })
  if (tasks.length === calls.length) return tasks
  forgetTargets()
  throw new BatchError(results)
}

/** Gathers the calls of a batch as they come out of their middleware, one by one, and stores them together after the last one. */
class Meeting {
  readonly #storeAll: (calls: readonly Call[]) => Promise<ScheduledTask[]>
  readonly #come = new Map<number, Call>()
  readonly #stored: Promise<ReadonlyMap<number, ScheduledTask>>
  #settle: (error?: unknown) => void = () => {}
  /** The number of calls that are still in their middleware. */
  #missing: number
  /** The first error of all: of a call that its middleware refused, or of storing. */
  error: unknown

  constructor(size: number, storeAll: (calls: readonly Call[]) => Promise<ScheduledTask[]>) {
    this.#missing = size
    this.#storeAll = storeAll
    const all = new Promise<void>((resolve, reject) => {
      this.#settle = error => (error === undefined ? resolve() : reject(error))
    })
    this.#stored = all.then(() => this.#store())
    this.#stored.catch(error => {
      this.error ??= error
    })
  }

  /** Call number `i` has passed its middleware. @returns its task, once all are stored */
  async join(i: number, call: Call): Promise<ScheduledTask> {
    this.#come.set(i, call)
    this.#oneLess()
    const task = (await this.#stored).get(i)
    if (task === undefined) throw new TypeError(`number ${i} was not stored`)
    return task
  }

  /**
   * Follows call number `i` through its middleware, so that a call that never joins (it is refused, or its middleware returns a
   * task of its own) is not waited for.
   */
  async hear(i: number, way: Promise<ScheduledTask>): Promise<ScheduledTask> {
    try {
      return await way
    } catch (error) {
      if (!this.#come.has(i)) this.#settle(error)
      throw error
    } finally {
      if (!this.#come.has(i)) this.#oneLess()
    }
  }

  #oneLess(): void {
    if (--this.#missing === 0) this.#settle()
  }

  async #store(): Promise<ReadonlyMap<number, ScheduledTask>> {
    const places = [...this.#come.keys()].sort((a, b) => a - b)
    const tasks = await this.#storeAll(places.flatMap(i => this.#come.get(i) ?? []))
    return new Map(places.flatMap((i, n) => (tasks[n] === undefined ? [] : [[i, tasks[n]] as const])))
  }
}
