import { prefixOf, type Ref } from '../../../base/task/ref.js'
import { createdAtMicros } from '../names.js'
import type { TaskIndex } from './task-index.js'

/** What the ready refs of an index are. */
export interface Census {
  /** How many each directory has, by its prefix: '' for the spool itself, `5/` for a priority. */
  readonly byPrefix: ReadonlyMap<string, number>
  /** How many more the index counts as ready: they have another place by now, which it notices when they are taken. */
  readonly surplus: number
  /** When the oldest became runnable; epoch ms. Undefined: there is none, or their names do not say. */
  readonly oldestMs: number | undefined
}

export function censusOf(index: TaskIndex): Census {
  const byPrefix = new Map<string, number>()
  let [count, oldest] = [0, Number.POSITIVE_INFINITY]
  let [prefix, beside] = ['', 0]
  index.eachReady((ref, time) => {
    count++
    if (!isIn(prefix, ref)) {
      add(byPrefix, prefix, beside)
      prefix = prefixOf(ref)
      beside = 0
    }
    beside++
    const since = time === 0 ? createdAtMicros(ref) : time // an order by name needs no times
    if (since !== undefined && since < oldest) oldest = since
  }, Date.now())
  add(byPrefix, prefix, beside)
  return {
    byPrefix,
    surplus: index.ready - count,
    oldestMs: oldest === Number.POSITIVE_INFINITY ? undefined : oldest / 1000,
  }
}

/** Most refs are beside the one before: that is seen without making a string of each. */
function isIn(prefix: string, ref: Ref): boolean {
  return ref.startsWith(prefix) && !ref.includes('/', prefix.length)
}

function add(counts: Map<string, number>, prefix: string, count: number): void {
  if (count > 0) counts.set(prefix, (counts.get(prefix) ?? 0) + count)
}
