import type { Ref } from '../task/ref.js'
import { prefixOf } from '../task/ref.js'
import { compareVersions } from './version-order.js'

/**
 * In which order due tasks run:
 *
 *   arrival  as they became runnable
 *   name     uWSGI's spooler-ordered: by name and priority, numbers as numbers
 *   age      by priority, and as they became runnable within each
 */
export type TaskOrder = 'arrival' | 'name' | 'age'

/** Negative when `a` runs first. The times are when they became runnable; of the same unit, and unused by `name`. */
export type CompareTasks = (a: Ref, aAt: number, b: Ref, bAt: number) => number

/** Of one microsecond by name: in names of one process a counter follows the pid. */
const byArrival: CompareTasks = (a, aAt, b, bAt) => aAt - bAt || compareVersions(a, b)

export const COMPARE_TASKS: Readonly<Record<TaskOrder, CompareTasks>> = {
  arrival: byArrival,
  name: (a, _aAt, b) => compareVersions(a, b),
  age: (a, aAt, b, bAt) => comparePriorities(prefixOf(a), prefixOf(b)) || byArrival(a, aAt, b, bAt),
}

/** As uWSGI orders directories among what lies beside them; the files of a directory run after the priorities in it. */
function comparePriorities(a: string, b: string): number {
  return a === b ? 0 : compareVersions(`${a}${LAST}`, `${b}${LAST}`)
}

/** Behind every digit and every letter. */
const LAST = '\xff'
