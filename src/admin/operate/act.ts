import { doEach, Slices } from '../../base/each.js'
import { messageOf } from '../../base/errors.js'
import type { Ref } from '../../base/task/ref.js'
import { type Changed, refused } from '../../engines/spool/admin/change.js'
import { ownStateOf, type TaskView } from '../../engines/spool/admin/task-view.js'
import type { TaskStore } from '../../engines/task-store.js'
import type { TaskAction } from './actions.js'
import type { Args } from './args.js'
import type { Selection } from './selection.js'

/** The most tasks that are acted on at once. */
const MOST_IN_BULK = 50_000
/** The most tasks whose names fit that are looked at, because more would take more than a minute. */
const MOST_LOOKED_AT = 200_000
/** How many tasks are acted on at a time: a daemon's control socket serves 64 clients. */
const AT_ONCE = 32

interface Selected {
  readonly refs: readonly Ref[]
  /** False: more tasks fit than may be acted on at once, or than are looked at. */
  readonly isWhole: boolean
}

/** How many tasks ended in which way. */
export type Tally = Readonly<Record<Changed['kind'], number>> & {
  /** Why the first task that was refused was refused. */
  readonly detail?: string
}

/** Does something to one task, as the command line does. */
export async function actOnTask(
  store: TaskStore,
  task: TaskView,
  action: TaskAction,
  args: Args = {},
): Promise<Changed> {
  if (!action.states.includes(ownStateOf(task.state)))
    return refused(`it is ${task.state}; this is for tasks that are ${action.states.join(', ')}`)
  try {
    return await store.change(task, action.change(args))
  } catch (error) {
    return refused(messageOf(error))
  }
}

/**
 * Returns the tasks to which an action would be done, as they are now.
 *
 * @param selection without states, it means all states in which a task can have the action
 * @throws the file system's error if the spool cannot be listed; a priority that cannot be listed is passed over
 */
export async function selectTasks(
  store: TaskStore,
  { states }: Pick<TaskAction, 'states'>,
  selection: Selection,
  most = MOST_IN_BULK,
): Promise<Selected> {
  const refs: Ref[] = []
  const slices = new Slices()
  let looked = 0
  const mayHave = (ref: Ref) => selection.mayHave(ref) && ++looked <= MOST_LOOKED_AT + 1
  for await (const task of store.views({ states, mayHave, failed() {} })) {
    await slices.rest()
    if (looked > MOST_LOOKED_AT) return { refs: [], isWhole: false }
    if (!states.includes(ownStateOf(task.state)) || !selection.has(task)) continue
    if (refs.length === most) return { refs, isWhole: false }
    refs.push(task.ref)
  }
  return { refs, isWhole: true }
}

/** Does something to each of these tasks. Tasks that are gone, or in another state by now, are left alone. */
export async function actOnTasks(store: TaskStore, action: TaskAction, refs: readonly Ref[]): Promise<Tally> {
  const counts = { done: 0, gone: 0, running: 0, refused: 0 }
  let detail: string | undefined
  const act = async (ref: Ref) => {
    const task = await store.view(ref)
    const changed: Changed = task === undefined ? { kind: 'gone' } : await actOnTask(store, task, action)
    counts[changed.kind]++
    if (changed.kind === 'refused') detail ??= changed.detail
  }
  await doEach(refs, act, { atOnce: AT_ONCE })
  return detail === undefined ? counts : { ...counts, detail }
}
