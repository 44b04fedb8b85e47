import type { Ref } from '../../../base/task/ref.js'
import { COMPARE_TASKS, type CompareTasks } from '../task-order.js'
import { type Placed, SortedWindow } from '../window.js'

/** Tasks are sorted by a number, their key, and by name if the keys are equal. */
export interface TaskSort {
  /** Sorted by priority first. */
  readonly byPriority?: boolean
  readonly isReversed: boolean
}

/** Calls back with every task of a source, and its key, in any order. */
export type Scan = (offer: (ref: Ref, key: number) => void) => Promise<void>

/** How many tasks a window holds at least, if there are so many. */
const MOST = 50_000

export function windowFor(sort: TaskSort, size = MOST): SortedWindow {
  return new SortedWindow(comparisonOf(sort), size)
}

/** Compares tasks as a daemon orders them: by priority and arrival (`age`), or by arrival alone. */
function comparisonOf({ byPriority, isReversed }: TaskSort): CompareTasks {
  const compare = COMPARE_TASKS[byPriority === true ? 'age' : 'arrival']
  return isReversed ? (a, aKey, b, bKey) => compare(b, bKey, a, aKey) : compare
}

/**
 * Yields the tasks of a source in order, whatever their number: each scan of the source takes as many of them as a window
 * holds. Tasks that come or go between the scans may be missed.
 *
 * @param first has met all tasks already, in place of the first scan
 */
export async function* inOrder(
  scan: Scan,
  sort: TaskSort,
  first?: SortedWindow,
  size = MOST,
): AsyncGenerator<readonly Ref[]> {
  const compare = comparisonOf(sort)
  let last: Placed | undefined
  const fill = async () => {
    const window = windowFor(sort, size)
    await scan((ref, key) => {
      if (last === undefined || compare(ref, key, last.ref, last.time) > 0) window.add(ref, key)
    })
    return window
  }
  for (let window = first ?? (await fill()); ; window = await fill()) {
    window.seal(undefined)
    const refs: Ref[] = []
    for (let next = window.peek(); next !== undefined; next = window.peek()) {
      refs.push(next.ref)
      window.next()
      last = next
    }
    yield refs
    if (!window.isOverflowed) return
  }
}

/** Visits refs until `each` returns false. @returns false if it has */
export async function visit(
  parts: AsyncIterable<readonly Ref[]>,
  each: (ref: Ref) => boolean,
): Promise<boolean> {
  for await (const refs of parts) if (!refs.every(each)) return false
  return true
}
