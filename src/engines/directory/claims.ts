import { toByteString } from '../../base/task/ref.js'
import { Claims, type ClaimsOptions } from '../spool/claims/claims.js'
import { type LockKind, openLocker } from '../spool/locker.js'

/** `spool` is the real path. */
export interface DirectoryClaimsOptions extends ClaimsOptions {
  readonly locks: LockKind
}

/** Claims task files with locks; every method returns synchronously. */
export type DirectoryClaims = Claims

export async function openDirectoryClaims(options: DirectoryClaimsOptions): Promise<DirectoryClaims> {
  const locker = await openLocker(options.spool, options.locks)
  return new Claims({ ...options, spool: toByteString(options.spool) }, locker)
}
