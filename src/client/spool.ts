import type { Stored } from '../task/request.js'
import { addressedFrom, type Dictionary, type TaskOptions } from './request-from.js'
import { notOverSocket } from './socket-target.js'
import { type Destination, forgetTargets, openTarget } from './target.js'

/** Where a task goes, and what is asked of it. */
export interface SpoolOptions extends Destination, TaskOptions {}

/**
 * Stores a task: `await spool({ to: 'joe' }, { spooler: '/var/spool/app' })`, as `uwsgi.spool()` does.
 *
 * @param dictionary keys of 1–65,535 bytes, values of 0–65,535, all together 65,535; uWSGI's magic keys mean what they
 *   mean there (`spooler`, `at`, `priority`, `body`)
 * @returns the path of the task's file; by then it is on disk, unless `sync` is false
 * @throws TypeError that names the key whose value cannot become bytes
 * @throws SpooldError whose `code` is REQUEST_INVALID, SPOOLER_UNKNOWN or SPOOL_UNUSABLE before anything is written;
 *   SPOOL_FULL or ENQUEUE_FAILED after nothing of it was left. `details` has the key, the sizes, the errno
 */
export async function spool(dictionary: Dictionary, options: SpoolOptions = {}): Promise<string> {
  return (await enqueue(dictionary, options)).path
}

/** The same, blocking, and with no syncs to share. A body that is a stream is refused. */
export function spoolSync(dictionary: Dictionary, options: SpoolOptions = {}): string {
  return enqueueSync(dictionary, options).path
}

/** As `spool`, and says whether a task with this `id` was there before. */
export async function enqueue(dictionary: Dictionary, options: SpoolOptions = {}): Promise<Stored> {
  const { request, spooler } = addressedFrom(dictionary, options)
  try {
    return await openTarget(options, spooler).store(request)
  } catch (error) {
    forgetTargets()
    throw error
  }
}

/** As `spoolSync`, and says whether a task with this `id` was there before. */
export function enqueueSync(dictionary: Dictionary, options: SpoolOptions = {}): Stored {
  const { request, spooler } = addressedFrom(dictionary, options)
  try {
    const target = openTarget(options, spooler)
    if (target.storeSync === undefined) throw notOverSocket('to store without waiting', 'socket')
    return target.storeSync(request)
  } catch (error) {
    forgetTargets()
    throw error
  }
}
