import { errnoOf, messageOf, SpooldError } from '../../../base/errors.js'
import { nameOf } from '../../../system/files/anchored-path.js'

/** Blocks, inodes, a user's quota: there may be room later. */
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT'])

export function isNoRoom(error: unknown): boolean {
  return NO_ROOM.has(errnoOf(error) ?? '')
}

/** The error for a task that could not be stored. Deliberate refusals stay as they are. */
export function writeError(directory: string, error: unknown): SpooldError {
  if (error instanceof SpooldError) return error
  const errno = errnoOf(error)
  const code = isNoRoom(error) ? 'SPOOL_FULL' : 'ENQUEUE_FAILED'
  const path = nameOf(directory)
  const hint = code === 'SPOOL_FULL' ? '; make room (df, df -i) and try again' : ''
  return new SpooldError(code, `the task could not be stored in ${path}: ${messageOf(error)}${hint}`, {
    cause: error,
    details: { path, ...(errno === undefined ? {} : { errno }) },
  })
}
