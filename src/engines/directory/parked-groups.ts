import type { ParkedGroup, ParkedPart } from '../../base/task/parked.js'
import { isToldByName, MOST_PARKED_NAMED } from '../control/parked-tasks.js'
import type { TaskIndex } from '../spool/index/task-index.js'

/** Of more groups, the largest are told. */
const MOST_GROUPS = 200
/** How many refs are told of all groups together. */
const MOST_TOLD = 2000

/** What an index has parked: first what only names tell, and then the largest groups first. */
export function parkedGroups(index: TaskIndex): ParkedGroup[] {
  const groups = [...index.parked.groups(MOST_PARKED_NAMED), ...index.tries.groups(MOST_PARKED_NAMED)]
  const isFirst = (group: ParkedGroup) => Number(isToldByName(group))
  return groups.sort((a, b) => isFirst(b) - isFirst(a) || b.count - a.count).slice(0, MOST_GROUPS)
}

/** @param limit how many refs of each group */
export function limited(groups: readonly ParkedGroup[], limit: number): ParkedGroup[] {
  let left = MOST_TOLD
  return groups.map(({ tasks, ...group }) => {
    const told = tasks.slice(0, Math.min(limit, left))
    left -= told.length
    return { ...group, tasks: told }
  })
}

/** One group, with part of its refs; nothing if there is none of that reason and name. */
export function partOf(
  groups: readonly ParkedGroup[],
  limit: number,
  { reason, name, from }: ParkedPart,
): ParkedGroup[] {
  return groups
    .filter(group => group.reason === reason && group.name === name)
    .map(({ tasks, ...group }) => ({ ...group, tasks: tasks.slice(from, from + limit) }))
}
