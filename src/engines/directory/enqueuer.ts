import { prepareSpool } from '../../spool/layout.js'
import { type WriteOptions, writeAtOnce, writeTask, writeTaskSync } from '../../spool/store/write.js'
import { writeTasks } from '../../spool/store/write-batch.js'
import type { WriteResult } from '../../spool/store/write-many.js'
import { toByteString } from '../../task/ref.js'
import type { Request, Stored } from '../../task/request.js'
import type { Enqueuer } from '../engine.js'

export type { WriteResult } from '../../spool/store/write-many.js'

/** Puts tasks into one spool directory, which is made when it is missing, as uWSGI's `spooler` does. */
export class DirectoryEnqueuer implements Enqueuer {
  /** The real path. */
  readonly directory: string
  readonly #options: WriteOptions

  /**
   * @param sync a task is on disk before it counts as stored
   * @throws SpooldError SPOOL_UNUSABLE
   */
  constructor(directory: string, sync = true) {
    this.directory = prepareSpool(directory)
    this.#options = { spool: toByteString(this.directory), sync }
  }

  async enqueue(request: Request): Promise<string> {
    return (await this.store(request)).path
  }

  /** What needs no waiting: a small task without sync. @returns undefined for all others */
  enqueueAtOnce(request: Request): string | undefined {
    return writeAtOnce(request, this.#options)?.path
  }

  /** @throws SpooldError REQUEST_INVALID, SPOOL_FULL, ENQUEUE_FAILED; nothing of the task is left */
  store(request: Request): Promise<Stored> {
    return writeTask(request, this.#options)
  }

  storeSync(request: Request): Stored {
    return writeTaskSync(request, this.#options)
  }

  /** Many with one sync; the results come in the order of the requests. */
  storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<WriteResult[]> {
    return writeTasks(requests, { ...this.#options, isAllOrNothing })
  }
}
