import type { Ref } from '../../base/task/ref.js'
import { prefixOf } from '../../base/task/ref.js'
import { compareVersions } from './version-order.js'

/**
 * The order in which due tasks run:
 *
 *   arrival  in the order in which they became runnable
 *   name     uWSGI's spooler-ordered: by priority and name, comparing numbers as numbers
 *   age      by priority, and within each in the order in which they became runnable
 */
export type TaskOrder = 'arrival' | 'name' | 'age'

/** Negative if `a` runs first. The times at which they became runnable share any one unit; `name` ignores them. */
export type CompareTasks = (a: Ref, aAt: number, b: Ref, bAt: number) => number

/** Ties are broken by name: in the names of one process, a counter follows the pid. */
const byArrival: CompareTasks = (a, aAt, b, bAt) => aAt - bAt || compareVersions(a, b)

export const COMPARE_TASKS: Readonly<Record<TaskOrder, CompareTasks>> = {
  arrival: byArrival,
  name: (a, _aAt, b) => compareVersions(a, b),
  age: (a, aAt, b, bAt) => comparePriorities(prefixOf(a), prefixOf(b)) || byArrival(a, aAt, b, bAt),
}

/** Orders directories among their siblings as uWSGI does; the files of a directory run after its priorities. */
export function comparePriorities(a: string, b: string): number {
  return a === b ? 0 : compareVersions(`${a}${LAST}`, `${b}${LAST}`)
}

/** Sorts after every digit and letter. */
const LAST = '\xff'
