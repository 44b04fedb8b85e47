import { prefixOf, type Ref } from '../../../base/task/ref.js'
import { isLocal } from '../../../system/files/stamps.js'
import { createdAtMicros, type NameRules } from '../names.js'
import { type ScanVisitor, scanSpool } from '../scan.js'
import type { TaskIndex } from './task-index.js'

/** Tasks by directory, by its prefix: '' for the spool itself, `5/` for a priority. */
export interface CountedBacklog {
  readonly byPrefix: ReadonlyMap<string, number>
  readonly total: number
  /** Epoch ms. */
  readonly atMs: number
}

/** A million names take a second: they are counted again after two hundred times as long, and this long at least. */
const PAUSE = 200
const MIN_PAUSE_MS = 60_000

/** Counts the names of a spool that has more tasks than an index holds. In the background, and only on request. */
export class BacklogCount {
  readonly #spool: string
  readonly #rules: NameRules
  #last: CountedBacklog | undefined
  #isCounting = false
  /** On the clock of `performance.now()`. */
  #nextAt = Number.NEGATIVE_INFINITY
  #ended = 0

  /** @param spool its path, a byte string */
  constructor(spool: string, rules: NameRules) {
    this.#spool = spool
    this.#rules = rules
  }

  /** The last count, less the tasks that have ended since; undefined until the first one is over. Begins another if it is time. */
  ask(): CountedBacklog | undefined {
    if (!this.#isCounting && performance.now() >= this.#nextAt) void this.#count()
    if (this.#last === undefined) return undefined
    return { ...this.#last, total: Math.max(0, this.#last.total - this.#ended) }
  }

  /** These tasks have left the spool. */
  ended(count: number): void {
    this.#ended += count
  }

  async #count(): Promise<void> {
    this.#isCounting = true
    const startedAt = performance.now()
    const byPrefix = new Map<string, number>()
    let [total, count] = [0, 0]
    const visitor: ScanVisitor = {
      task() {
        count++
        return true
      },
      directory() {
        count = 0
      },
      listed(prefix) {
        if (count > 0) byPrefix.set(prefix, count)
        total += count
      },
      failed() {},
    }
    this.#ended = 0 // half of what ends during the count may be counted, or not: an estimate
    try {
      await scanSpool(this.#spool, this.#rules, visitor, await isLocal(this.#spool))
      this.#last = { byPrefix, total, atMs: Date.now() }
    } catch {} // the scanner reports a directory that cannot be listed
    const tookMs = performance.now() - startedAt
    this.#nextAt = performance.now() + Math.max(MIN_PAUSE_MS, PAUSE * tookMs)
    this.#isCounting = false
  }
}

/** What the ready refs of an index are. */
export interface Census {
  /** How many each directory has, by its prefix: '' for the spool itself, `5/` for a priority. */
  readonly byPrefix: ReadonlyMap<string, number>
  /** How many more the index counts as ready: they have another place by now, which it notices when they are taken. */
  readonly surplus: number
  /** When the oldest that somebody has looked at became runnable; epoch ms. Undefined: there is none, or their names do not say. */
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
    if (index.isUnseen(ref)) return
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
