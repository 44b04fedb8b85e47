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

/** A spool directory that root holds open, so that it stays the same whatever its name leads to meanwhile. */
interface Held {
  readonly directory: Directory
  /** The user to whom root gives the files that it stores; undefined if that is root itself. */
  readonly owner: Owner | undefined
  readonly untilMs: number
}

/** How long root holds a spool: finding out whose it is, along the whole path to it, takes longer than storing a task. */
const HELD_MS = 1000

/**
 * Stores tasks in one spool directory. Creates the directory if it is missing, as uWSGI's `spooler` does. Root stores tasks
 * for the owner of the spool, in a directory that it holds open, and stays root: a library has no identity of its own to
 * change.
 */
export class DirectoryEnqueuer implements Enqueuer {
  /** The spool's real path. */
  readonly name: string
  readonly #options: WriteOptions
  /** The spool as root held it last; undefined for other users. */
  #last: Held | undefined

  /**
   * @param sync true if a task must be on disk before it counts as stored
   * @throws SpooldError SPOOL_UNUSABLE
   */
  constructor(directory: string, sync = true) {
    this.name = sayingWhatToDo(() => prepareSpool(directory))
    this.#options = { spool: toByteString(this.name), sync }
  }

  /** Stores a small task synchronously if it needs no sync. Returns undefined for all other tasks. */
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
      return requests.map(() => ({ error: toError(error) })) // the spool cannot be held, so no request can be stored
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

/**
 * Holds a spool for root.
 *
 * @throws SpooldError SPOOL_UNUSABLE if it is not clear for whom root acts; or an error of the system
 */
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

/** Tells the user of a library what to do if root cannot tell for whom it stores. A command has `--as` for that. */
function sayingWhatToDo<T>(look: () => T): T {
  try {
    return look()
  } catch (error) {
    if (!(error instanceof SpooldError) || error.details.fix !== undefined) throw error
    const { code, message, details } = error
    throw new SpooldError(code, `${message}; run this as the user of its daemon`, { cause: error, details })
  }
}
