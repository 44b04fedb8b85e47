import { prefixOf } from '../../task/ref.js'
import { createdAtMicros } from '../names.js'
import type { TaskIndex } from './task-index.js'

/** What the ready refs of an index are. */
interface Census {
  /** How many each directory has, by its prefix: '' for the spool itself, `5/` for a priority. */
  readonly byPrefix: ReadonlyMap<string, number>
  /** How many more the index counts as ready: they have another place by now, which it notices when they are taken. */
  readonly surplus: number
  /** When the oldest became runnable; epoch ms. Undefined: there is none, or their names do not say. */
  readonly oldestMs: number | undefined
}

/** A window has up to 120,000 refs: the next census waits a hundred times as long as the last one took. */
const PAUSE = 100

/** Takes a census of an index, when asked and not more often than is cheap. */
export class CensusTaker {
  readonly #index: TaskIndex
  #last: Census | undefined
  /** On the clock of `performance.now()`. */
  #nextAt = Number.NEGATIVE_INFINITY

  constructor(index: TaskIndex) {
    this.#index = index
  }

  take(): Census {
    const now = performance.now()
    if (this.#last !== undefined && now < this.#nextAt) return this.#last
    this.#last = censusOf(this.#index)
    const endedAt = performance.now()
    this.#nextAt = endedAt + PAUSE * (endedAt - now)
    return this.#last
  }
}

function censusOf(index: TaskIndex): Census {
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
