import type { Ref } from '../../base/task/ref.js'
import { TASK_STATES, type TaskView } from '../../engines/spool/admin/task-view.js'
import type { TaskStore } from '../../engines/task-store.js'
import { ID_KEY } from '../../formats/protocol/named.js'
import { lastValue } from '../../formats/protocol/vars.js'

/** What somebody calls a task. */
export interface Sought {
  /** As bytes: a path below the spool, or a name. */
  readonly ref: Ref
  /** As text: the id that its caller gave, or the UUID of a named task. */
  readonly id: string
}

export interface Found {
  /** `file`: the task is at that path; `name`: it is elsewhere in the spool, such as in a priority or among the dead letters. */
  readonly how: 'file' | 'name' | 'id'
  readonly task: TaskView
}

interface Search {
  readonly found: readonly Found[]
  /** The ref of the task that was stored under the id, even if that task is gone. */
  readonly stored?: Ref
}

/**
 * Returns the tasks of a spool that somebody may mean: the one at that path; else those of that name; else the one of that id,
 * which may have moved, or died, since it was stored.
 */
export async function findTasks(store: TaskStore, { ref, id }: Sought): Promise<Search> {
  const named = await store.named(ref)
  if (named.length > 0)
    return { found: named.map(task => ({ how: task.ref === ref ? 'file' : 'name', task })) }
  const ofId = (tasks: readonly TaskView[]): Search => ({ found: tasks.map(task => ({ how: 'id', task })) })
  const stored = await store.find(id)
  if (stored !== undefined) return { ...ofId(await store.named(stored)), stored }
  if (!UUID.test(id)) return ofId([]) // only the packets of named tasks have those ids
  for await (const task of store.views({ states: TASK_STATES, mayHave: () => true }))
    if (task.file.vars !== undefined && lastValue(task.file.vars, ID_KEY) === id) return ofId([task])
  return ofId([])
}

/** Matches the id of a named task to which its caller gave none. */
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
