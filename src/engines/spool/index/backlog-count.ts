import { prefixOf, type Ref } from '../../../base/task/ref.js'
import { isLocal } from '../../../system/files/stamps.js'
import type { NameRules } from '../names.js'
import { type ScanVisitor, scanSpool } from '../scan.js'
import type { TaskIndex } from './task-index.js'

/** The number of tasks in each directory, by its prefix: '' for the spool itself, `5/` for a priority. */
export interface CountedBacklog {
  readonly byPrefix: ReadonlyMap<string, number>
  readonly total: number
  /** When the count ended; epoch ms. */
  readonly atMs: number
}

/**
 * The pause after a count: this many times as long as the count took (a million names take a second), and at least
 * `MIN_PAUSE_MS`.
 */
const PAUSE = 200
const MIN_PAUSE_MS = 60_000

/** Counts the names of a spool that has more tasks than an index holds, in the background and only on request. */
export class BacklogCount {
  readonly #spool: string
  readonly #rules: NameRules
  #last: CountedBacklog | undefined
  #isCounting = false
  /** When the next count may begin, on the clock of `performance.now()`. */
  #nextAt = Number.NEGATIVE_INFINITY
  /** The number of tasks that have left the spool since `#last` began to be counted. */
  #ended = 0

  /** @param spool its path, a byte string */
  constructor(spool: string, rules: NameRules) {
    this.#spool = spool
    this.#rules = rules
  }

  /**
   * Returns the last complete count, less the tasks that have ended since it began; undefined until the first count is complete.
   * Begins another count if it is time.
   */
  ask(): CountedBacklog | undefined {
    if (!this.#isCounting && performance.now() >= this.#nextAt) void this.#count()
    if (this.#last === undefined) return undefined
    return { ...this.#last, total: Math.max(0, this.#last.total - this.#ended) }
  }

  /** Takes note that this many tasks have left the spool. */
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
    const endedBefore = this.#ended
    try {
      await scanSpool(this.#spool, this.#rules, visitor, await isLocal(this.#spool))
      this.#last = { byPrefix, total, atMs: Date.now() }
      this.#ended -= endedBefore // an estimate: a task that ends during the count may be counted, or not
    } catch {} // the scanner reports a directory that cannot be listed
    const tookMs = performance.now() - startedAt
    this.#nextAt = performance.now() + Math.max(MIN_PAUSE_MS, PAUSE * tookMs)
    this.#isCounting = false
  }
}

/** Figures of the ready refs of an index. */
export interface Census {
  /** The number of refs in each directory, by its prefix: '' for the spool itself, `5/` for a priority. */
  readonly byPrefix: ReadonlyMap<string, number>
  /**
   * How many more refs the index counts as ready: their file is not a task, or they are in another place by now, which the
   * index notices when they are taken.
   */
  readonly surplus: number
  /**
   * When the oldest ref that somebody has looked at became runnable; epoch ms. Undefined if there is none.
   */
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
    oldest = Math.min(oldest, time)
  }, Date.now())
  add(byPrefix, prefix, beside)
  return {
    byPrefix,
    surplus: index.ready - count,
    oldestMs: oldest === Number.POSITIVE_INFINITY ? undefined : oldest / 1000,
  }
}

/**
 * True if the ref is directly in this directory. Most refs are in the directory of the one before, which is seen without making
 * a string of each ref.
 */
function isIn(prefix: string, ref: Ref): boolean {
  return ref.startsWith(prefix) && !ref.includes('/', prefix.length)
}

function add(counts: Map<string, number>, prefix: string, count: number): void {
  if (count > 0) counts.set(prefix, (counts.get(prefix) ?? 0) + count)
}
