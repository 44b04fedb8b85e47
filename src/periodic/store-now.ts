import type { PeriodicTask } from '../task/periodic.js'
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
  const { task: _last, ...times } = entry ?? entryFrom(task, now())
  // first, so that of several daemons one stores it
  if (!(await states.advance(times, version, true)))
    throw new Error('another daemon has just stored a run of it')
  const stored = await store(task)
  await states.advance({ ...times, task: stored }, version + 1, false)
  return stored
}
