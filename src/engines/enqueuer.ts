import type { Request, Stored } from '../base/task/request.js'

/** The result for one task of a batch. */
export type StoreResult = { readonly stored: Stored } | { readonly error: Error }

/** Stores tasks: all that a program needs if it does not run any. */
export interface Enqueuer {
  /** The name for people: a spool's real path, or a daemon's address. */
  readonly name: string
  /**
   * Resolves when the task is stored safely. A task with an id is stored once, however often it is sent.
   *
   * @throws SpooldError REQUEST_INVALID, SPOOL_FULL, ENQUEUE_FAILED; nothing of the task is left
   */
  store(request: Request): Promise<Stored>
  /**
   * Stores many requests. The results are in the order of the requests. With `isAllOrNothing`, if one cannot be stored, none is.
   */
  storeAll(requests: readonly Request[], isAllOrNothing?: boolean): Promise<readonly StoreResult[]>
  /**
   * Stores a request for a caller that cannot await. Absent where storing needs an answer from another process.
   *
   * @throws as `store`
   */
  storeSync?(request: Request): Stored
  /**
   * Stores a request if that is possible without waiting; undefined if it is not. Absent where it is never possible.
   *
   * @throws as `store`
   */
  storeAtOnce?(request: Request): Stored | undefined
}
