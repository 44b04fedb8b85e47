import { Heap } from '../../base/heap.js'
import type { Ref } from '../../task/ref.js'
import { COMPARE_TASKS, type TaskOrder } from '../task-order.js'
import type { TaskIndex } from './task-index.js'
import type { Placed } from './window.js'

/** The ready refs that an index would give next, at most `limit`. They stay where they are. */
export function bestReady(index: TaskIndex, order: TaskOrder, limit: number): Ref[] {
  const compare = COMPARE_TASKS[order]
  const isAfter = (a: Placed, b: Placed) => compare(a.ref, a.time, b.ref, b.time) > 0
  const kept = new Heap<Placed>(isAfter) // the last of them is at its top
  index.eachReady((ref, time) => {
    const last = kept.peek()
    if (last !== undefined && kept.size >= limit) {
      if (compare(ref, time, last.ref, last.time) >= 0) return
      kept.pop()
    }
    kept.push({ ref, time })
  }, Date.now())
  return [...kept.values()].sort((a, b) => (isAfter(a, b) ? 1 : -1)).map(({ ref }) => ref)
}
