import { toByteString } from '../../base/task/ref.js'
import type { Request, Stored } from '../../base/task/request.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import { prepareSpool } from '../spool/layout.js'
import { type WriteOptions, writeAtOnce, writeTask, writeTaskSync } from '../spool/store/write.js'
import { writeTasks } from '../spool/store/write-batch.js'

/** Stores tasks in one spool directory. Creates the directory if it is missing, as uWSGI's `spooler` does. */
export class DirectoryEnqueuer implements Enqueuer {
  /** The real path. */
  readonly name: string
  readonly #options: WriteOptions

  /**
   * @param sync a task is on disk before it counts as stored
   * @throws SpooldError SPOOL_UNUSABLE
   */
  constructor(directory: string, sync = true) {
    this.name = prepareSpool(directory)
    this.#options = { spool: toByteString(this.name), sync }
  }

  /** Stores a small task without sync synchronously. */
  storeAtOnce(request: Request): Stored | undefined {
    return writeAtOnce(request, this.#options)
  }

  store(request: Request): Promise<Stored> {
    return writeTask(request, this.#options)
  }

  storeSync(request: Request): Stored {
    return writeTaskSync(request, this.#options)
  }

  /** Stores many tasks with a single sync. The results are in the order of the requests. */
  storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<readonly StoreResult[]> {
    return writeTasks(requests, { ...this.#options, isAllOrNothing })
  }
}
