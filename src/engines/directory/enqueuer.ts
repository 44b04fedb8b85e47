import { SpooldError } from '../../base/errors.js'
import { toByteString } from '../../base/task/ref.js'
import type { Request, Stored } from '../../base/task/request.js'
import { statusOf } from '../../system/files/anchored-path.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import { holdForStoring, prepareSpool } from '../spool/layout.js'
import { type WriteOptions, writeAtOnce, writeTask, writeTaskSync } from '../spool/store/write.js'
import { writeTasks } from '../spool/store/write-batch.js'
import { writeError } from '../spool/store/write-error.js'

type Held = ReturnType<typeof holdForStoring> & { readonly untilMs: number }

/** Whose the spool is, by the way that leads there, takes longer to find out than storing a task. */
const HELD_MS = 1000

/**
 * Stores tasks in one spool directory. Creates the directory if it is missing, as uWSGI's `spooler` does. Root stores for the
 * owner of the spool, in the directory that it holds meanwhile.
 */
export class DirectoryEnqueuer implements Enqueuer {
  /** The real path. */
  readonly name: string
  readonly #options: WriteOptions
  /** Root's. */
  #last: Held | undefined

  /**
   * @param sync a task is on disk before it counts as stored
   * @throws SpooldError SPOOL_UNUSABLE
   */
  constructor(directory: string, sync = true) {
    this.name = sayingWhatToDo(() => prepareSpool(directory))
    this.#options = { spool: toByteString(this.name), sync }
  }

  /** Stores a small task without sync synchronously. */
  storeAtOnce(request: Request): Stored | undefined {
    return this.#inSpool(options => writeAtOnce(request, options))
  }

  async store(request: Request): Promise<Stored> {
    return this.#inSpool(options => writeTask(request, options))
  }

  storeSync(request: Request): Stored {
    return this.#inSpool(options => writeTaskSync(request, options))
  }

  /** Stores many tasks with a single sync. The results are in the order of the requests. */
  async storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<readonly StoreResult[]> {
    return this.#inSpool(options => writeTasks(requests, { ...options, isAllOrNothing }))
  }

  #inSpool<Result>(write: (options: WriteOptions) => Result): Result {
    if (process.geteuid?.() !== 0) return write(this.#options)
    const { directory, owner } = this.#held()
    directory.use()
    const release = () => directory.release()
    let result: Result
    try {
      result = write({ ...this.#options, spool: directory.path, owner })
    } catch (error) {
      release()
      throw error
    }
    if (result instanceof Promise) result.then(release, release)
    else release()
    return result
  }

  #held(): Held {
    const last = this.#last
    if (last !== undefined && performance.now() < last.untilMs && isStill(this.#options.spool, last))
      return last
    this.#letGo(last)
    try {
      const held = sayingWhatToDo(() => holdForStoring(this.name))
      const kept = { ...held, untilMs: performance.now() + HELD_MS }
      setTimeout(() => this.#letGo(kept), HELD_MS).unref()
      this.#last = kept
      return kept
    } catch (error) {
      throw writeError(this.#options.spool, error)
    }
  }

  #letGo(held: Held | undefined): void {
    if (held === undefined || held !== this.#last) return
    this.#last = undefined
    held.directory.release()
  }
}

function isStill(spool: string, { directory: { status } }: Held): boolean {
  const found = statusOf(spool)
  return found?.isSame(status) === true && found.uid === status.uid
}

/** Where root cannot tell for whom it stores. A command has `--as`. */
function sayingWhatToDo<T>(look: () => T): T {
  try {
    return look()
  } catch (error) {
    if (!(error instanceof SpooldError) || error.details.fix !== undefined) throw error
    const { code, message, details } = error
    throw new SpooldError(code, `${message}; run this as the user of its daemon`, { cause: error, details })
  }
}
