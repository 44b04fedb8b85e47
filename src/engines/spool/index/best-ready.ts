import { Heap } from '../../../base/heap.js'
import type { Ref } from '../../../base/task/ref.js'
import { COMPARE_TASKS, type TaskOrder } from '../task-order.js'
import type { TaskIndex } from './task-index.js'

/**
 * Part of the ready refs, in the order in which an index would give them. They stay where they are.
 *
 * The best so far have slots, whose numbers are the heap: far down the list, objects would be garbage of ten megabytes.
 */
export function bestReady(index: TaskIndex, order: TaskOrder, from: number, count: number): Ref[] {
  const compare = COMPARE_TASKS[order]
  const limit = from + count
  const refs: Ref[] = []
  const times = new Float64Array(limit)
  const orderOf = (a: number, b: number) =>
    compare(refs[a] ?? '', times[a] ?? 0, refs[b] ?? '', times[b] ?? 0)
  const kept = new Heap<number>((a, b) => orderOf(a, b) > 0) // the last of them is at its top
  index.eachReady((ref, time) => {
    let slot = kept.size
    if (slot === limit) {
      slot = kept.peek() ?? 0
      if (compare(ref, time, refs[slot] ?? '', times[slot] ?? 0) >= 0) return
      kept.pop()
    }
    refs[slot] = ref
    times[slot] = time
    kept.push(slot)
  }, Date.now())
  const slots = Uint32Array.from(kept.values()).sort(orderOf)
  return Array.from(slots.subarray(from), slot => refs[slot] ?? '')
}
