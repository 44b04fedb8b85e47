import { existsSync, lstatSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { messageOf, SpooldError } from '../../../base/errors.js'
import { toByteString } from '../../../base/task/ref.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { taskOfId } from '../../../engines/spool/admin/fate.js'
import { isUwsgiName, STATE_DIRECTORY } from '../../../engines/spool/names.js'
import { redisPath } from '../redis-paths.js'
import { placesOf, type TaskPath, taskAt } from '../task-paths.js'

/** A task that may be gone by now. */
export type AwaitedTask = Required<TaskPath>

/**
 * The tasks that an argument means: the files at its paths; otherwise those of that name in a spool's priorities and dead
 * letters; otherwise those that were stored under that id; otherwise one that is gone.
 *
 * @param paths several if it may be in one of several spools
 * @throws SpooldError USAGE, FILE_UNREADABLE
 */
export async function awaitedTasks(paths: readonly string[]): Promise<AwaitedTask[]> {
  const onRedis = await Promise.all(paths.flatMap(path => redisPath(path) ?? []).map(taskOnRedis))
  if (onRedis.length > 0) return onRedis.filter((each, i) => each.isKnown || i === 0).map(({ task }) => task)
  for (const find of [filesAt, placesNamed, tasksOfId]) {
    const found = paths.flatMap(find)
    if (found.length > 0) return found
  }
  const [path = ''] = paths
  const named = taskIn(path)
  if (mayBeTask(named, path)) return [named]
  throw new SpooldError('FILE_UNREADABLE', `${path} does not exist, and ${named.spool} is no spool`)
}

/** By its name, or else by its id; one that is gone cannot be told from one that never was. */
async function taskOnRedis({ ref, ...where }: TaskPath) {
  if (ref === undefined) throw new SpooldError('USAGE', `expected a task, got the spool ${where.spool}`)
  const store = await openTaskStore(where.spool)
  const isThere = (await store.view(ref)) !== undefined
  const named = isThere ? ref : await store.find(ref)
  return { task: { ...where, ref: named ?? ref }, isKnown: named !== undefined }
}

/** No file of another directory is waited for: nothing would ever remove it. */
function mayBeTask({ spool }: AwaitedTask, path: string): boolean {
  return existsSync(join(spool, STATE_DIRECTORY)) || isUwsgiName(toByteString(basename(path)), RULES)
}

const RULES = { ordered: false, strictNames: false }

function filesAt(path: string): AwaitedTask[] {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  if (stats?.isDirectory() === true)
    throw new SpooldError('USAGE', `expected a task, got the directory ${path}`)
  if (stats === undefined) return []
  const task = taskIn(path)
  if (mayBeTask(task, path)) return [task]
  throw new SpooldError('FILE_UNREADABLE', `${path} is no task: ${task.spool} is no spool`)
}

/** Those that may still run, or else the latest dead letter. */
function placesNamed(path: string): AwaitedTask[] {
  try {
    const places = placesOf(dirname(path), basename(path))
    const alive = places.filter(place => !place.includes(`/${STATE_DIRECTORY}/`))
    return (alive.length > 0 ? alive : places.slice(-1)).map(taskIn)
  } catch {
    return [] // closed to us, or no directory
  }
}

function tasksOfId(path: string): AwaitedTask[] {
  const named = taskIn(path)
  const ref = taskOfId(toByteString(named.spool), basename(path))
  return ref === undefined ? [] : [{ ...named, ref }]
}

function taskIn(path: string): AwaitedTask {
  try {
    return taskAt(path)
  } catch (error) {
    throw new SpooldError('FILE_UNREADABLE', `${path} cannot be looked for: ${messageOf(error)}`, {
      cause: error,
    })
  }
}
