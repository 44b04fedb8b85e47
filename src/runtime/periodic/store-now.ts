import type { PeriodicTask } from '../../base/task/schedule.js'
import type { PeriodicTasksOptions } from './tasks.js'
import { entryFrom } from './times.js'

type Options = Pick<PeriodicTasksOptions, 'states' | 'now' | 'store'>

/**
 * Stores a run because a person asks for it, and leaves the next regular time alone. It counts as the task's last run: unless runs
 * may overlap, nothing more is stored before it has ended.
 *
 * @returns the name of the stored task
 * @throws Error why nothing was stored
 */
export async function storeNow({ states, now, store }: Options, task: PeriodicTask): Promise<string> {
  const { version = 0, entry } = (await states.read()).get(states.keyOf(task.name)) ?? {}
  const last = entry?.task
  const fate = last === undefined ? 'gone' : await states.fateOf(last)
  if (fate === 'waiting' || (fate === 'begun' && !task.overlap))
    throw new Error(
      `its last run, ${last}, has not ended${fate === 'begun' ? ', and it does not overlap' : ''}`,
    )
  const name = states.newTask()
  // first, so that of several daemons one stores it
  if (!(await states.advance({ ...(entry ?? entryFrom(task, now())), task: name }, version, true)))
    throw new Error('another daemon has just stored a run of it')
  await store(task, name)
  return name
}
