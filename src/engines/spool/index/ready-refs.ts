import { Heap } from '../../../base/heap.js'
import { prefixOf, type Ref } from '../../../base/task/ref.js'
import { COMPARE_TASKS, type TaskOrder } from '../task-order.js'
import { type IsBefore, type Placed, placedBefore, SortedWindow, type Visit } from '../window.js'
import type { Directories } from './directories.js'

/** What a scan did with the directories. */
export type Scanned = Pick<Directories, 'isAsBefore' | 'isListed'>

/**
 * The refs that may run now, in order: those that the last scan met, and those that became ready otherwise (fresh). A ref may
 * be in both, and may be elsewhere by now, so whoever takes a ref checks that.
 */
export class ReadyRefs {
  readonly #order: TaskOrder
  readonly #isBefore: IsBefore
  readonly #limit: number
  /** The refs that the last scan met. */
  #window: SortedWindow
  /** Refs that became ready otherwise. */
  #fresh: Heap<Placed>
  /** The fresh refs, each with the number of the scan during or after which it was last named. */
  readonly #freshNames = new Map<Ref, number>()
  #scans = 0
  /** The refs that come next, while other daemons run tasks of the directory, too. */
  readonly #ahead = new Ahead()
  /** True if more refs are due than there is room for. */
  #overflowed = false
  /** What the scan in progress has found so far; undefined while there is none. */
  #harvest: SortedWindow | undefined
  /** The refs that were given away since that scan began. */
  readonly #takenSinceScan = new Set<Ref>()

  /** @param limit the maximum number of refs that a scan adds, and of those that become ready between two scans */
  constructor(order: TaskOrder, limit: number) {
    this.#order = order
    this.#isBefore = placedBefore(order)
    this.#limit = limit
    this.#window = this.#newWindow()
    this.#fresh = new Heap(this.#isBefore)
  }

  get size(): number {
    return this.#window.size + this.#freshNames.size + this.#ahead.size
  }

  /** True if more refs are due than are known, and the known ones run low: a scan finds the next. */
  get runsLow(): boolean {
    return this.#overflowed && this.#window.size < this.#limit / 4
  }

  /** True if all due refs are known. */
  get areAll(): boolean {
    return !this.#overflowed
  }

  /** Takes note that there are refs that only a scan can name. */
  missSome(): void {
    this.#overflowed = true
  }

  /**
   * Calls back once with each ref, and when it became runnable, until `visit` returns false. In about the order in which they
   * are taken.
   */
  each(visit: Visit): void {
    for (const { ref, time } of this.#ahead.values()) if (visit(ref, time) === false) return
    for (const { ref, time } of this.#fresh.values()) if (visit(ref, time) === false) return
    this.#window.each((ref, time) => this.#freshNames.has(ref) || visit(ref, time))
  }

  /** True if the ref became ready otherwise than by a scan, or is ahead. */
  isFresh(ref: Ref): boolean {
    return this.#freshNames.has(ref) || this.#ahead.has(ref)
  }

  /**
   * Takes in a change of the file of a ref that is ahead. Whoever begins the task writes to the file, so after a write all
   * others that are ahead go first. Whoever ends the task removes the file, so after a rename the ref is forgotten.
   *
   * @returns false if the ref is not ahead
   */
  changed(ref: Ref, renamed: boolean): boolean {
    return renamed ? this.#ahead.delete(ref) : this.#ahead.postpone(ref)
  }

  /** Takes note that a ref became ready again. @returns false if the ref is neither ahead nor fresh */
  renew(ref: Ref): boolean {
    if (this.#ahead.has(ref)) return true
    const isKnown = this.#freshNames.has(ref)
    if (isKnown) this.#freshNames.set(ref, this.#scans)
    return isKnown
  }

  /** Adds a ref that has become ready, and is neither ahead nor fresh. If there is no room, the next scan finds it. */
  add(ref: Ref, time: number): void {
    if (this.#freshNames.size >= this.#limit) {
      this.#overflowed = true
      return
    }
    this.#freshNames.set(ref, this.#scans)
    this.#fresh.push({ ref, time })
  }

  /** Removes those of these refs that are fresh or ahead; refs of the window stay. */
  remove(refs: Iterable<Ref>): void {
    let isAnyRemoved = false
    for (const ref of refs) if (this.#freshNames.delete(ref) || this.#ahead.delete(ref)) isAnyRemoved = true
    if (isAnyRemoved) this.#sift()
  }

  /** Returns the ref that `next()` removes. */
  peek(): Placed | undefined {
    return this.#isAheadNext ? this.#ahead.peek() : this.#peekInOrder()
  }

  /** True if the ref would come before all ready refs. */
  isFirst(placed: Placed): boolean {
    const first = this.#isAheadNext ? this.#ahead.last : this.#peekInOrder()
    return first === undefined
      ? this.#window.isBeforeTheRest(placed.ref, placed.time)
      : this.#isBefore(placed, first)
  }

  /**
   * Removes and returns the first ref.
   *
   * @param spread the number of next refs among which it is chosen, because other daemons run tasks, too; the order `name`
   *   ignores it
   */
  next(spread = 1): Ref | undefined {
    if (spread > 1 && this.#ahead.size === 0 && this.#order !== 'name') this.#lookAhead(spread)
    return this.#isAheadNext ? this.#ahead.next() : this.#nextInOrder()
  }

  /** Moves the next refs, at most `count` and of one priority, to `#ahead`. */
  #lookAhead(count: number): void {
    const found: Placed[] = []
    for (let next = this.#peekInOrder(); next !== undefined; next = this.#peekInOrder()) {
      const [first = next] = found
      if (found.length === count || prefixOf(next.ref) !== prefixOf(first.ref)) break
      found.push(next)
      this.#nextInOrder()
    }
    this.#ahead.fill(found)
  }

  /** True if no other ref comes before the last of those ahead, which have no order among themselves. */
  get #isAheadNext(): boolean {
    const { last } = this.#ahead
    if (last === undefined) return false
    const other = this.#peekInOrder()
    return other === undefined || this.#isBefore(last, other)
  }

  #peekInOrder(): Placed | undefined {
    const fresh = this.#fresh.peek()
    return fresh !== undefined && this.#comesFirst(fresh) ? fresh : this.#window.peek()
  }

  #nextInOrder(): Ref | undefined {
    const fresh = this.#fresh.peek()
    if (fresh === undefined || !this.#comesFirst(fresh)) return this.#window.next()
    this.#fresh.pop()
    this.#freshNames.delete(fresh.ref)
    return fresh.ref
  }

  /** Takes note that a ref was given away, because a scan in progress may have met it before. */
  given(ref: Ref): void {
    if (this.#harvest !== undefined) this.#takenSinceScan.add(ref)
  }

  beginScan(): void {
    for (const { ref, time } of this.#ahead.values()) if (!this.#freshNames.has(ref)) this.add(ref, time)
    this.#ahead.clear()
    this.#harvest = this.#newWindow()
    this.#scans++
    this.#takenSinceScan.clear()
    this.#overflowed = false
  }

  /** Takes in a ref that the scan in progress met. @returns true if the scan should continue */
  seen(ref: Ref, time: number): boolean {
    const harvest = this.#harvest
    if (harvest === undefined) return false
    if (this.#freshNames.size > 0) this.renew(ref)
    const isWorthMore = harvest.add(ref, time)
    this.#overflowed ||= harvest.isOverflowed
    return isWorthMore
  }

  endScan(scanned?: Scanned): void {
    const harvest = this.#harvest ?? this.#newWindow()
    this.#harvest = undefined
    if (scanned !== undefined) harvest.adopt(this.#window, ref => scanned.isAsBefore(prefixOf(ref)))
    const elsewhere = this.#takenSinceScan.size + this.#freshNames.size + this.#ahead.size
    harvest.seal(elsewhere === 0 ? undefined : ref => this.#isElsewhere(ref))
    this.#overflowed ||= harvest.isOverflowed
    this.#window = harvest
    this.#takenSinceScan.clear()
    if (scanned !== undefined && !this.#overflowed) this.#dropUnmet(scanned)
  }

  /**
   * Forgets the fresh refs that the scan did not meet: somebody removed their files. While nothing is taken (a pause, long
   * tasks), they would be counted for ever.
   */
  #dropUnmet(scanned: Scanned): void {
    const before = this.#freshNames.size
    for (const [ref, scan] of this.#freshNames)
      if (scan < this.#scans && scanned.isListed(prefixOf(ref))) this.#freshNames.delete(ref)
    if (this.#freshNames.size < before) this.#sift()
  }

  /** Removes the refs from `#fresh` that are no longer in `#freshNames`. */
  #sift(): void {
    const all = this.#fresh.values()
    this.#fresh = new Heap(this.#isBefore)
    for (const placed of all) if (this.#freshNames.has(placed.ref)) this.#fresh.push(placed)
  }

  /**
   * True if a worker took the ref after the scan met it, or if the ref is already ready. (With a full window, a fresh ref may
   * be listed twice.)
   */
  #isElsewhere(ref: Ref): boolean {
    if (this.#takenSinceScan.has(ref) || this.#ahead.has(ref)) return true
    return !this.#overflowed && this.#freshNames.has(ref)
  }

  #newWindow(): SortedWindow {
    return new SortedWindow(COMPARE_TASKS[this.#order], this.#limit, this.#order === 'arrival')
  }

  #comesFirst(fresh: Placed): boolean {
    const first = this.#window.peek()
    if (first === undefined) return this.#window.isBeforeTheRest(fresh.ref, fresh.time)
    return this.#isBefore(fresh, first)
  }
}

/**
 * The refs that come next, in another order than that of other daemons, where they run tasks of the directory, too. In the same
 * order, all daemons would try each task at once, and all but one in vain.
 */
class Ahead {
  /** When each ref became runnable; in the order in which the refs are taken. */
  readonly #times = new Map<Ref, number>()
  #last: Placed | undefined

  get size(): number {
    return this.#times.size
  }

  has(ref: Ref): boolean {
    return this.#times.size > 0 && this.#times.has(ref)
  }

  /** The last, in order, of the refs that were added together. It may have been taken. Undefined once none is left. */
  get last(): Placed | undefined {
    return this.#times.size === 0 ? undefined : this.#last
  }

  /** @param found the refs in their order */
  fill(found: Placed[]): void {
    this.#last = found.at(-1)
    for (const { ref, time } of shuffled(found)) this.#times.set(ref, time)
  }

  /** Returns the ref that `next` removes. */
  peek(): Placed | undefined {
    for (const [ref, time] of this.#times) return { ref, time }
    return undefined
  }

  next(): Ref | undefined {
    const ref = this.peek()?.ref
    if (ref !== undefined) this.#times.delete(ref)
    return ref
  }

  /** Moves a ref behind all others. @returns false if the ref is not ahead */
  postpone(ref: Ref): boolean {
    const time = this.#times.size === 0 ? undefined : this.#times.get(ref)
    if (time === undefined) return false
    this.#times.delete(ref)
    this.#times.set(ref, time)
    return true
  }

  /** @returns false if the ref is not ahead */
  delete(ref: Ref): boolean {
    return this.#times.size > 0 && this.#times.delete(ref)
  }

  *values(): Generator<Placed> {
    for (const [ref, time] of this.#times) yield { ref, time }
  }

  clear(): void {
    this.#times.clear()
  }
}

function shuffled<T>(all: T[]): T[] {
  for (let last = all.length - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1))
    const moved = all[last] as T
    all[last] = all[other] as T
    all[other] = moved
  }
  return all
}
