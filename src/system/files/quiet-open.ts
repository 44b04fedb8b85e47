import { constants } from 'node:fs'
import { toFsPath } from '../../base/task/ref.js'
import { openSync } from './anchored-path.js'

// O_NONBLOCK: a FIFO under a task's name must not block us. O_NOFOLLOW: a symlink must not lead us out of the spool.
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Opens a task's path, safely whatever is there. @param path a byte string */
export function openSafely(path: string, access: number): number {
  return openSync(toFsPath(path), access | SAFE)
}
