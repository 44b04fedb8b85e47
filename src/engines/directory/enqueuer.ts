import { SpooldError, toError } from '../../base/errors.js'
import { isThenable } from '../../base/promise.js'
import { toByteString } from '../../base/task/ref.js'
import type { Request, Stored } from '../../base/task/request.js'
import { systemError } from '../../system/calls.js'
import { type Directory, holdOpen, statusOf } from '../../system/files/anchored-path.js'
import { loadedCalls } from '../../system/libc.js'
import { holdSpool } from '../../system/opener.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import { STATE_DIRECTORY } from '../spool/names.js'
import { type Owner, prepareSpool } from '../spool/permissions.js'
import { type WriteOptions, writeAtOnce, writeError, writeTask, writeTaskSync } from '../spool/store/write.js'
import { writeTasks } from '../spool/store/write-batch.js'

/** A spool that stays the same, whatever its name leads to meanwhile. */
interface Held {
  readonly directory: Directory
  /** Whom root gives what it stores; undefined: root itself. */
  readonly owner: Owner | undefined
  readonly untilMs: number
}

/** Whose the spool is, by the way that leads there, takes longer to find out than storing a task. */
const HELD_MS = 1000

/**
 * Stores tasks in one spool directory. Creates the directory if it is missing, as uWSGI's `spooler` does. Root stores for the
 * owner of the spool, in the directory that it holds meanwhile, and stays root: a library has no identity of its own to change.
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
    try {
      return await this.#inSpool(options => writeTasks(requests, { ...options, isAllOrNothing }))
    } catch (error) {
      return requests.map(() => ({ error: toError(error) })) // there is no spool for any of them
    }
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
    if (isThenable(result)) result.then(release, release)
    else release()
    return result
  }

  #held(): Held {
    const last = this.#last
    if (last !== undefined && performance.now() < last.untilMs && isStill(this.#options.spool, last))
      return last
    this.#letGo(last)
    try {
      const kept = sayingWhatToDo(() => hold(this.name))
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

/** @throws SpooldError SPOOL_UNUSABLE if it is not clear for whom root acts; an error of the system */
function hold(path: string): Held {
  const found = holdSpool(path, STATE_DIRECTORY)
  try {
    if (found.missing !== undefined) throw systemError(found.missing, 'open', path)
    const directory = holdOpen(found.fd, toByteString(found.path))
    const owner = found.owner === null ? undefined : { uid: found.owner.uid, gid: directory.status.gid }
    return { directory, owner, untilMs: performance.now() + HELD_MS }
  } finally {
    loadedCalls().close(found.fd)
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
