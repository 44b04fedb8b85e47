import type { Request, Stored } from '../task/request.js'

/** The result for one task of a batch. */
export type StoreResult = { readonly stored: Stored } | { readonly error: Error }

/** Stores tasks: all that a program needs if it runs none. */
export interface Enqueuer {
  /** What people call it: a spool's real path, a daemon's address. */
  readonly name: string
  /**
   * The task is safe when this resolves. With an id it is stored once, however often it is sent.
   *
   * @throws SpooldError REQUEST_INVALID, SPOOL_FULL, ENQUEUE_FAILED; nothing of the task is left
   */
  store(request: Request): Promise<Stored>
  /** The results come in the order of the requests. All or nothing: when one is not stored, none is. */
  storeAll(requests: readonly Request[], isAllOrNothing?: boolean): Promise<readonly StoreResult[]>
  /** For a caller that cannot wait. Absent where storing takes an answer from another process. @throws as `store` */
  storeSync?(request: Request): Stored
  /** What can be stored without waiting; undefined: not this request. Absent where nothing can. @throws as `store` */
  storeAtOnce?(request: Request): Stored | undefined
}
