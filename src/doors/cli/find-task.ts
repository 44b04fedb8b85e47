import { SpooldError } from '../../base/errors.js'
import { TASK_STATES, type TaskView } from '../../engines/spool/admin/task-view.js'
import type { TaskStore } from '../../engines/task-store.js'
import { ID_KEY } from '../../formats/protocol/named.js'
import { lastValue } from '../../formats/protocol/vars.js'
import { idPath, parseTaskPath } from './task-paths.js'

interface Found {
  readonly store: TaskStore
  readonly found: TaskView
}

export type StoreOf = (spool: string) => Promise<TaskStore>

/** A task that is done leaves no trace. */
const DONE_OR_UNKNOWN = ': done or unknown'

/**
 * The task that is named on the command line, by its file or by an id.
 *
 * @throws SpooldError FILE_UNREADABLE
 */
export async function findTask(file: string, storeOf: StoreOf): Promise<Found> {
  return (await taskOfId(file, storeOf)) ?? (await taskAtPath(file, storeOf))
}

async function taskAtPath(file: string, storeOf: StoreOf): Promise<Found> {
  const { spool, ref } = parseTaskPath(file, DONE_OR_UNKNOWN)
  if (ref === undefined) throw unreadable(file, 'it is a directory; see spoold ls')
  const store = await storeOf(spool)
  const found = (await store.view(ref)) ?? (await viewOfId(store, ref))
  if (found !== undefined) return { store, found }
  throw new SpooldError('FILE_UNREADABLE', `${file} does not exist${DONE_OR_UNKNOWN}`)
}

/** A task in a directory that is named by its id. */
async function taskOfId(file: string, storeOf: StoreOf): Promise<Found | undefined> {
  const named = idPath(file)
  if (named === undefined) return undefined
  const store = await storeOf(named.spool)
  const found = await viewOfId(store, named.ref)
  return found && { store, found }
}

/** The id that a caller gave it, or the UUID of a named task, which only its packet knows. */
async function viewOfId(store: TaskStore, id: string): Promise<TaskView | undefined> {
  const ref = await store.find(id)
  if (ref !== undefined) return store.view(ref)
  if (!UUID.test(id)) return undefined
  for await (const task of store.views({ states: TASK_STATES, mayHave: () => true }))
    if (task.file.vars !== undefined && lastValue(task.file.vars, ID_KEY) === id) return task
  return undefined
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export function unreadable(file: string, why = ''): SpooldError {
  return new SpooldError('FILE_UNREADABLE', `${file} cannot be read: ${why}`)
}
