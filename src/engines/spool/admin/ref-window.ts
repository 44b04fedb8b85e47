import { select } from '../../../base/heap.js'
import { prefixOf, type Ref } from '../../../base/task/ref.js'
import { COMPARE_TASKS } from '../task-order.js'

/** A task, and the number by which it is sorted. */
export interface Keyed {
  readonly ref: Ref
  readonly key: number
}

/** Tasks are sorted by their key, and by name if the keys are equal. */
export interface TaskSort {
  /** Sorted by priority first. */
  readonly byPriority?: boolean
  readonly isReversed: boolean
}

/** How many tasks, and how many bytes of names, a window holds at most. A full window drops the half that comes last. */
const MAX_TASKS = 80 * 1024
const MAX_BYTES = 8 * 1024 * 1024

/**
 * Keeps the tasks that come first in an order, out of any number that it is offered. The names lie outside of V8's heap:
 * as strings, a window that a million names pass through would leave hundreds of megabytes of garbage.
 */
export class RefWindow {
  readonly #sort: TaskSort
  readonly #size: number
  /** All names, one after the other. Memory that is not used yet is not resident. */
  readonly #names = Buffer.allocUnsafeSlow(MAX_BYTES)
  #used = 0
  #count = 0
  readonly #keys: Float64Array
  readonly #starts: Uint32Array
  readonly #prefixIds: Uint32Array
  readonly #prefixes: string[] = []
  readonly #idOfPrefix = new Map<string, number>()
  /** The last of the tasks that were kept when some were dropped; undefined: none was dropped. */
  #bound: Keyed | undefined

  constructor(sort: TaskSort, size = MAX_TASKS) {
    this.#sort = sort
    this.#size = size
    this.#keys = new Float64Array(size)
    this.#starts = new Uint32Array(size + 1)
    this.#prefixIds = new Uint32Array(size)
  }

  /** True if some tasks were dropped; all of them come after those that were kept. */
  get isPartial(): boolean {
    return this.#bound !== undefined
  }

  offer(task: Keyed): void {
    if (this.#isBehindBound(task)) return
    const { ref, key } = task
    if (this.#count === this.#size || this.#used + ref.length > MAX_BYTES) {
      this.#drop()
      if (this.#isBehindBound(task)) return
    }
    const prefix = prefixOf(ref)
    const name = ref.slice(prefix.length)
    this.#used += this.#names.write(name, this.#used, 'latin1')
    this.#keys[this.#count] = key
    this.#prefixIds[this.#count] = this.#idOf(prefix)
    this.#starts[++this.#count] = this.#used
  }

  /** The last of the kept tasks, in order; undefined: there is none. */
  get last(): Keyed | undefined {
    if (this.#count === 0) return undefined
    return this.#at(this.#indices().reduce((last, each) => (this.#compareAt(each, last) > 0 ? each : last)))
  }

  /** The kept tasks, in order. */
  *inOrder(): Generator<Ref> {
    for (const i of this.#indices().sort((a, b) => this.#compareAt(a, b))) yield this.#at(i).ref
  }

  #isBehindBound(task: Keyed): boolean {
    return this.#bound !== undefined && compare(task, this.#bound, this.#sort) > 0
  }

  #indices(): Uint32Array {
    return Uint32Array.from({ length: this.#count }, (_, i) => i)
  }

  /** Drops the half that comes last, and packs the rest in place. */
  #drop(): void {
    const indices = this.#indices()
    const half = this.#count >> 1
    select(indices, half - 1, (a, b) => this.#compareAt(a, b) < 0)
    this.#bound = this.#at(indices[half - 1] ?? 0)
    this.#count = 0
    this.#used = 0
    for (const i of indices.subarray(0, half).sort()) {
      const [start = 0, end = 0] = [this.#starts[i], this.#starts[i + 1]]
      this.#names.copyWithin(this.#used, start, end)
      this.#used += end - start
      this.#keys[this.#count] = this.#keys[i] ?? 0
      this.#prefixIds[this.#count] = this.#prefixIds[i] ?? 0
      this.#starts[++this.#count] = this.#used
    }
  }

  /** Decodes names only if the keys are equal. */
  #compareAt(a: number, b: number): number {
    const { byPriority, isReversed } = this.#sort
    const isEqual = byPriority !== true || this.#prefixIds[a] === this.#prefixIds[b]
    const difference = isEqual ? (this.#keys[a] ?? 0) - (this.#keys[b] ?? 0) : 0
    if (difference !== 0) return isReversed ? -difference : difference
    return compare(this.#at(a), this.#at(b), this.#sort)
  }

  #at(i: number): Keyed {
    const prefix = this.#prefixes[this.#prefixIds[i] ?? 0] ?? ''
    const name = this.#names.toString('latin1', this.#starts[i], this.#starts[i + 1])
    return { ref: prefix + name, key: this.#keys[i] ?? 0 }
  }

  #idOf(prefix: string): number {
    const known = this.#idOfPrefix.get(prefix)
    if (known !== undefined) return known
    const id = this.#prefixes.push(prefix) - 1
    this.#idOfPrefix.set(prefix, id)
    return id
  }
}

/** Compares tasks as a daemon orders them: by priority and arrival (`age`), or by arrival alone. */
function compare(a: Keyed, b: Keyed, { byPriority, isReversed }: TaskSort): number {
  const difference = COMPARE_TASKS[byPriority === true ? 'age' : 'arrival'](a.ref, a.key, b.ref, b.key)
  return isReversed ? -difference : difference
}

/**
 * Visits the tasks of a source in order, whatever their number: each scan of the source takes as many of them as a window
 * holds. Tasks that come or go between the scans may be missed.
 *
 * @param scan offers every task of the source, in any order
 * @param each returns false to end
 * @param after only the tasks behind this one
 */
export async function inOrder(
  scan: (offer: (task: Keyed) => void) => Promise<void>,
  sort: TaskSort,
  each: (ref: Ref) => boolean,
  after?: Keyed,
  size = MAX_TASKS,
): Promise<void> {
  for await (const window of windowsInOrder(scan, sort, after, size)) if (!visit(window, each)) return
}

/** Yields the tasks of a source in order, one window of them at a time. */
export async function* windowsInOrder(
  scan: (offer: (task: Keyed) => void) => Promise<void>,
  sort: TaskSort,
  after?: Keyed,
  size = MAX_TASKS,
): AsyncGenerator<RefWindow> {
  let last = after
  for (let isPartial = true; isPartial; ) {
    const window = new RefWindow(sort, size)
    await scan(task => {
      if (last === undefined || compare(task, last, sort) > 0) window.offer(task)
    })
    yield window
    isPartial = window.isPartial
    if (isPartial) last = window.last
  }
}

/** @returns false if `each` has ended the visit */
export function visit(window: RefWindow, each: (ref: Ref) => boolean): boolean {
  for (const ref of window.inOrder()) if (!each(ref)) return false
  return true
}
