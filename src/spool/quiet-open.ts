import { constants } from 'node:fs'
import { errnoOf } from '../base/errors.js'
import { toFsPath } from '../task/ref.js'
import { openSync } from './anchored.js'

// O_NONBLOCK: a FIFO under a task's name must not stop us. O_NOFOLLOW: neither must a link lead us out of the spool.
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK
/** Only Linux has it. */
const QUIET = constants.O_NOATIME ?? 0

/**
 * Opens a file such that a look at it leaves no trace: its atime may be the mark of a start (spool/state-byte). Only its
 * owner and root may ask for that; of others' files the atime moves.
 */
export function openQuietly(path: string, access: number): number {
  const fsPath = toFsPath(path)
  try {
    return openSync(fsPath, access | SAFE | QUIET)
  } catch (error) {
    if (errnoOf(error) !== 'EPERM') throw error
    return openSync(fsPath, access | SAFE)
  }
}
