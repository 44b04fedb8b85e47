import { constants } from 'node:fs'
import { toFsPath } from '../task/ref.js'
import { openSync } from './anchored-path.js'

// O_NONBLOCK: a FIFO under a task's name must not stop us. O_NOFOLLOW: neither must a link lead us out of the spool.
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Opens what may lie under a task's name. @param path a byte string */
export function openSafely(path: string, access: number): number {
  return openSync(toFsPath(path), access | SAFE)
}
