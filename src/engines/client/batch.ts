import { counted } from '../../base/counted.js'
import { SpooldError } from '../../base/errors.js'
import type { Request, Stored } from '../../base/task/request.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import { addressedFrom, type Dictionary, type TaskOptions } from './request-from.js'
import { type Destination, forgetTargets, openTarget } from './target.js'

export interface BatchOptions extends Destination {
  /** If true, and one task cannot be stored, none is. Default: false. */
  readonly allOrNothing?: boolean
}

/** The result for one task: where it is stored, or why it could not be. */
export type BatchResult = StoreResult

/** Thrown if some tasks of a batch could not be stored. Its `code` is BATCH_INCOMPLETE. */
export class BatchError extends SpooldError {
  /** One result per task, in the order in which the tasks were added. */
  readonly results: readonly BatchResult[]

  constructor(results: readonly BatchResult[]) {
    const errors = results.flatMap(result => ('error' in result ? [result.error] : []))
    const message = `${errors.length} of ${counted(results.length, 'task')} could not be stored: ${errors[0]?.message}`
    super('BATCH_INCOMPLETE', message, { cause: errors[0] })
    this.results = results
  }
}

/**
 * Many tasks for one spool, stored with one sync: all files first, then each directory once.
 *
 * ```js
 * const batch = new Batch({ spooler: '/var/spool/app' })
 * for (const to of people) batch.add({ to })
 * await batch.spool()
 * ```
 */
export class Batch {
  readonly #options: BatchOptions
  #target: Enqueuer | undefined
  #requests: Request[] = []

  constructor(options: BatchOptions = {}) {
    this.#options = options
  }

  /** The number of tasks waiting for `spool`. */
  get size(): number {
    return this.#requests.length
  }

  /**
   * Adds a task. Nothing is written yet.
   *
   * @throws the errors that `spool` throws before it writes anything, and REQUEST_INVALID if the task is for another spool; the
   *   batch is unchanged
   */
  add(dictionary: Dictionary, options: TaskOptions = {}): this {
    const { request, spooler } = addressedFrom(dictionary, options)
    const target = openTarget(this.#options, spooler)
    this.#target ??= target
    if (target.name !== this.#target.name)
      throw new SpooldError(
        'REQUEST_INVALID',
        `a batch goes to one spool: this one to ${this.#target.name}, the task to ${target.name}`,
        { details: { key: 'spooler' } },
      )
    this.#requests.push(request)
    return this
  }

  /**
   * Stores the added tasks. The batch is empty afterwards, and can be filled again.
   *
   * @returns where each task is stored, in the order of `add`
   * @throws BatchError if not all of them could be stored; its `results` have one entry per task
   */
  async spool(): Promise<Stored[]> {
    const requests = this.#requests
    this.#requests = []
    const results = (await this.#target?.storeAll(requests, this.#options.allOrNothing)) ?? []
    const stored = results.flatMap(result => ('stored' in result ? [result.stored] : []))
    if (stored.length === results.length) return stored
    forgetTargets()
    this.#target = undefined
    throw new BatchError(results)
  }
}
