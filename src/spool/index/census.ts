import { prefixOf } from '../../task/ref.js'
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
  index.eachReady((ref, time) => {
    count++
    const prefix = prefixOf(ref)
    byPrefix.set(prefix, (byPrefix.get(prefix) ?? 0) + 1)
    const since = time === 0 ? createdAtMicros(ref) : time // an order by name needs no times
    if (since !== undefined && since < oldest) oldest = since
  }, Date.now())
  return {
    byPrefix,
    surplus: index.ready - count,
    oldestMs: oldest === Number.POSITIVE_INFINITY ? undefined : oldest / 1000,
  }
}
