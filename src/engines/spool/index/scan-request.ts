/** A pending request for a scan. */
export interface ScanRequest {
  /** The earliest time that was asked for, on the clock of `performance.now()`. */
  readonly at: number
  /** Waiting files are looked at again, too. */
  readonly isForAll: boolean
}

export const NO_REQUEST: ScanRequest = { at: Number.POSITIVE_INFINITY, isForAll: false }

/** One request that serves both. */
export function merged(pending: ScanRequest, added: ScanRequest): ScanRequest {
  return { at: Math.min(pending.at, added.at), isForAll: pending.isForAll || added.isForAll }
}
