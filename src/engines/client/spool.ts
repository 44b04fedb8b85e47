import type { Stored } from '../../base/task/request.js'
import { addressedFrom, type Dictionary, type TaskOptions } from './request-from.js'
import { notOverSocket } from './socket-client.js'
import { type Destination, forgetTargets, openTarget } from './target.js'

/** The destination and the options of a task. */
export interface SpoolOptions extends Destination, TaskOptions {}

/**
 * Stores a task: `await spool({ to: 'joe' }, { spooler: '/var/spool/app' })`, as `uwsgi.spool()` does.
 *
 * @param dictionary keys of 1–65,535 bytes, values of 0–65,535, all together 65,535; uWSGI's magic keys have their meaning
 *   (`spooler`, `at`, `priority`, `body`)
 * @returns the path of the task file, which by then is on disk unless `sync` is false; with a `socket`, its address; on Redis,
 *   the spool's name and the task's id
 * @throws TypeError that names the key, if its value cannot become bytes
 * @throws SpooldError whose `code` is REQUEST_INVALID, SPOOLER_UNKNOWN or SPOOL_UNUSABLE before anything is written; SPOOL_FULL
 *   or ENQUEUE_FAILED if nothing of the task is left; with a `socket`, also ADDRESS_INVALID or SOCKET_…; on Redis, also
 *   ADDRESS_INVALID, LIBRARY_MISSING or REDIS_…. After SOCKET_UNANSWERED and REDIS_UNANSWERED the task may be stored; after
 *   REDIS_UNREPLICATED it is. `details` has the key, the sizes, the errno
 */
export async function spool(dictionary: Dictionary, options: SpoolOptions = {}): Promise<string> {
  return (await enqueue(dictionary, options)).path
}

/**
 * As `spool`, but blocks until the task is stored, and shares no syncs with other calls. Only for spool directories.
 *
 * @throws as `spool`; SpooldError REQUEST_INVALID also for a body that is a stream, a `socket`, or a spool on Redis
 */
export function spoolSync(dictionary: Dictionary, options: SpoolOptions = {}): string {
  return enqueueSync(dictionary, options).path
}

/** As `spool`, but the result also says whether a task with this `id` existed (`isDuplicate`). */
export async function enqueue(dictionary: Dictionary, options: SpoolOptions = {}): Promise<Stored> {
  const { request, spooler } = addressedFrom(dictionary, options)
  try {
    return await openTarget(options, spooler).store(request)
  } catch (error) {
    forgetTargets()
    throw error
  }
}

/** As `spoolSync`, but the result also says whether a task with this `id` existed (`isDuplicate`). */
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
