import { prepareSpool } from '../spool/directory.js'
import { writeTask } from '../spool/write.js'
import { toByteString } from '../task/ref.js'
import type { Enqueuer } from './engine.js'

/**
 * Puts tasks into a spool directory, which is made when it is missing, as uWSGI's `spooler` does.
 *
 * @throws SpooldError SPOOL_UNUSABLE
 */
export function openDirectoryEnqueuer(directory: string, sync = true): Enqueuer {
  const spool = toByteString(prepareSpool(directory, null))
  return { enqueue: request => writeTask(request, { spool, sync }) }
}
