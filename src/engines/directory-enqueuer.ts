import { prepareSpool } from '../spool/directory.js'
import { writeTask, writeTaskSync } from '../spool/write.js'
import { type WriteResult, writeTasks } from '../spool/write-batch.js'
import { toByteString } from '../task/ref.js'
import type { Request, Stored } from '../task/request.js'
import type { Enqueuer } from './engine.js'

export type { WriteResult } from '../spool/write-batch.js'

/** Puts tasks into one spool directory, which is made when it is missing, as uWSGI's `spooler` does. */
export class DirectoryEnqueuer implements Enqueuer {
  /** The real path. */
  readonly directory: string
  readonly #spool: string
  readonly #sync: boolean

  /**
   * @param sync a task is on disk before it counts as stored
   * @throws SpooldError SPOOL_UNUSABLE
   */
  constructor(directory: string, sync = true) {
    this.directory = prepareSpool(directory, null)
    this.#spool = toByteString(this.directory)
    this.#sync = sync
  }

  async enqueue(request: Request): Promise<string> {
    return (await this.store(request)).path
  }

  /** @throws SpooldError REQUEST_INVALID, SPOOL_FULL, ENQUEUE_FAILED; nothing of the task is left */
  store(request: Request): Promise<Stored> {
    return writeTask(request, { spool: this.#spool, sync: this.#sync })
  }

  storeSync(request: Request): Stored {
    return writeTaskSync(request, { spool: this.#spool, sync: this.#sync })
  }

  /** Many with one sync; the results come in the order of the requests. */
  storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<WriteResult[]> {
    return writeTasks(requests, { spool: this.#spool, sync: this.#sync, isAllOrNothing })
  }
}
