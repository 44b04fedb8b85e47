import { Heap } from '../../base/heap.js'
import type { Ref } from '../../base/task/ref.js'
import { COMPARE_TASKS, type CompareTasks, type TaskOrder } from './task-order.js'

/**
 * The number of refs that are sorted at once, in some 2 ms: a hundred thousand would block the event loop for a tenth of a
 * second.
 */
const RUN = 1024
/** A window is cut when it has this many times its limit, so that nothing need be dropped for every ref. */
const SLACK = 1.5
/** The limit is found by a sample of about this many refs, so a large limit is not exact. */
const SAMPLE = 2048

/** A ref, and when it became runnable; epoch µs. */
export interface Placed {
  readonly ref: Ref
  readonly time: number
}

/** @returns true if `a` comes first */
export type IsBefore = (a: Placed, b: Placed) => boolean

export function placedBefore(order: TaskOrder): IsBefore {
  const compare = COMPARE_TASKS[order]
  return (a, b) => compare(a.ref, a.time, b.ref, b.time) < 0
}

/** @param time when the ref became runnable @returns false to skip the rest */
export type Visit = (ref: Ref, time: number) => unknown

/** Refs in order, and when each became runnable; taken from the head. */
interface Run {
  readonly refs: Ref[]
  readonly times: number[]
  head: number
}

/**
 * The best of all refs that a listing meets, up to a limit, as sorted runs that are merged while refs are taken. Refs are added
 * while the listing lasts, and taken once it is over.
 */
export class SortedWindow {
  readonly #limit: number
  readonly #compare: CompareTasks
  readonly #stopsWhenFull: boolean
  #runs: Run[] = []
  #unsorted: Run = emptyRun()
  readonly #heads: Heap<Run>
  #size = 0
  /** No ref that comes after this one is kept. Undefined as long as all are kept. */
  #last: Placed | undefined
  #isOverflowed = false

  /**
   * @param stopsWhenFull true to keep the first refs that the listing meets, so that a long backlog begins before it is listed. No
   *   ref waits for those that the listing did not reach, because their times are unknown
   */
  constructor(compare: CompareTasks, limit: number, stopsWhenFull = false) {
    this.#limit = limit
    this.#compare = compare
    this.#stopsWhenFull = stopsWhenFull
    this.#heads = new Heap<Run>((a, b) => compare(refOf(a), timeOf(a), refOf(b), timeOf(b)) < 0)
  }

  get size(): number {
    return this.#size
  }

  /** True if more refs may be due than there is room for. */
  get isOverflowed(): boolean {
    return this.#isOverflowed
  }

  /** @returns true if the listing should meet more refs */
  add(ref: Ref, time: number): boolean {
    if (!this.isBeforeTheRest(ref, time)) return true
    this.#unsorted.refs.push(ref)
    this.#unsorted.times.push(time)
    this.#size++
    if (this.#unsorted.refs.length >= RUN) this.#sort()
    if (this.#size >= SLACK * this.#limit) this.#cut()
    this.#isOverflowed ||= this.#stopsWhenFull && this.#size >= this.#limit
    return !this.#stopsWhenFull || !this.#isOverflowed
  }

  /** Takes over the wanted refs that are left in another window. */
  adopt(other: SortedWindow, isWanted: (ref: Ref) => boolean): void {
    for (const run of other.#heads.values()) {
      const wanted = filter(run, isWanted)
      this.#runs.push(wanted)
      this.#size += wanted.refs.length
    }
  }

  /** Puts the refs in order, because the listing is over. @param isUnwanted true for refs that have another place by now */
  seal(isUnwanted: ((ref: Ref) => boolean) | undefined): void {
    this.#sort()
    if (this.#size > this.#limit) this.#cut()
    const runs = this.#runs
    this.#runs = []
    this.#size = 0
    for (const run of runs) {
      const wanted = isUnwanted === undefined ? run : filter(run, ref => !isUnwanted(ref))
      this.#size += wanted.refs.length
      if (wanted.refs.length > 0) this.#heads.push(wanted)
    }
  }

  /**
   * Visits the refs in about the order in which they are taken. @returns false if `visit` returned false, which ends the visits
   */
  each(visit: Visit): boolean {
    for (const { refs, times, head } of this.#heads.values())
      for (let i = head; i < refs.length; i++) if (visit(refs[i] ?? '', times[i] ?? 0) === false) return false
    return true
  }

  peek(): Placed | undefined {
    const run = this.#heads.peek()
    return run === undefined ? undefined : { ref: refOf(run), time: timeOf(run) }
  }

  next(): Ref | undefined {
    const run = this.#heads.peek()
    if (run === undefined) return undefined
    const ref = run.refs[run.head++]
    if (run.head < run.refs.length) this.#heads.topChanged()
    else this.#heads.pop()
    this.#size--
    return ref
  }

  /** True if none of the refs for which there was no room runs before this one. */
  isBeforeTheRest(ref: Ref, time: number): boolean {
    return this.#last === undefined || this.#compare(ref, time, this.#last.ref, this.#last.time) < 0
  }

  #sort(): void {
    const { refs, times } = this.#unsorted
    if (refs.length === 0) return
    const places = refs.map((_, i) => i).sort((a, b) => this.#compareIn(refs, times, a, b))
    this.#runs.push({ refs: places.map(i => refs[i] ?? ''), times: places.map(i => times[i] ?? 0), head: 0 })
    this.#unsorted = emptyRun()
  }

  #compareIn(refs: readonly Ref[], times: readonly number[], a: number, b: number): number {
    return this.#compare(refs[a] ?? '', times[a] ?? 0, refs[b] ?? '', times[b] ?? 0)
  }

  /** Drops the refs beyond the limit. Every ref that stays is better than every ref that goes, whatever the sample misses. */
  #cut(): void {
    this.#sort()
    const step = Math.max(1, Math.floor(this.#limit / SAMPLE))
    const sample = this.#runs
      .flatMap(run => sampleOf(run, step))
      .sort((a, b) => this.#compare(a.ref, a.time, b.ref, b.time))
    const last = sample[Math.ceil(this.#limit / step) - 1]
    if (last === undefined) return
    this.#last = last
    this.#isOverflowed = true
    this.#size = 0
    for (const run of this.#runs) {
      run.refs.length = run.times.length = this.#firstAfter(run, last)
      this.#size += run.refs.length
    }
    this.#runs = this.#runs.filter(run => run.refs.length > 0)
  }

  /** Returns the place of the first ref of a run that comes after this one. */
  #firstAfter({ refs, times }: Run, { ref, time }: Placed): number {
    let [low, high] = [0, refs.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#compare(refs[middle] ?? '', times[middle] ?? 0, ref, time) <= 0) low = middle + 1
      else high = middle
    }
    return low
  }
}

function emptyRun(): Run {
  return { refs: [], times: [], head: 0 }
}

function refOf({ refs, head }: Run): Ref {
  return refs[head] ?? ''
}

function timeOf({ times, head }: Run): number {
  return times[head] ?? 0
}

/** Returns the wanted refs that are left in a run. */
function filter({ refs, times, head }: Run, isWanted: (ref: Ref) => boolean): Run {
  const wanted = emptyRun()
  for (let i = head; i < refs.length; i++) {
    if (!isWanted(refs[i] ?? '')) continue
    wanted.refs.push(refs[i] ?? '')
    wanted.times.push(times[i] ?? 0)
  }
  return wanted
}

function sampleOf({ refs, times }: Run, step: number): Placed[] {
  const sample: Placed[] = []
  for (let i = step - 1; i < refs.length; i += step) sample.push({ ref: refs[i] ?? '', time: times[i] ?? 0 })
  return sample
}
