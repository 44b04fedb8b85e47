import { Heap } from '../../base/heap.js'
import type { Ref } from '../../task/ref.js'
import { compareVersions } from '../version-order.js'

/** The best due refs that one scan met, up to a limit; they are added while it lasts, and taken when it is over. */
export interface Window {
  /** How many are there. */
  readonly size: number
  /** More were met than there is room for. */
  readonly isOverflowed: boolean
  /** @returns whether more are worth to be met */
  add(ref: Ref): boolean
  /** Takes over what is left in another one, and wanted. */
  adopt(other: this, isWanted: (ref: Ref) => boolean): void
  /** The scan is over. @param isUnwanted refs that have another place by now */
  seal(isUnwanted: ((ref: Ref) => boolean) | undefined): void
  peek(): Ref | undefined
  next(): Ref | undefined
  /** Is it sure that nothing of what had no room runs before this one? */
  isBeforeTheRest(ref: Ref): boolean
}

/** In directory order: the first that are met. */
export class PlainWindow implements Window {
  readonly #limit: number
  #refs: Ref[] = []
  #head = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get size(): number {
    return this.#refs.length - this.#head
  }

  get isOverflowed(): boolean {
    return this.#refs.length >= this.#limit
  }

  add(ref: Ref): boolean {
    this.#refs.push(ref)
    return !this.isOverflowed
  }

  adopt(other: PlainWindow, isWanted: (ref: Ref) => boolean): void {
    for (const ref of other.#refs.slice(other.#head)) if (isWanted(ref)) this.#refs.push(ref)
  }

  seal(isUnwanted: ((ref: Ref) => boolean) | undefined): void {
    if (isUnwanted !== undefined) this.#refs = this.#refs.filter(ref => !isUnwanted(ref))
  }

  peek(): Ref | undefined {
    return this.#refs[this.#head]
  }

  next(): Ref | undefined {
    const ref = this.#refs[this.#head]
    if (ref !== undefined) this.#head++
    return ref
  }

  isBeforeTheRest(): boolean {
    return true
  }
}

/** So many names are sorted at once, in some 2 ms: a hundred thousand would keep the event loop for a tenth of a second. */
const RUN = 1024
/** Room for more than the limit, so that what is beyond it need not be dropped for every name. */
const SLACK = 1.5
/** How exact the limit is where it is large: it is found by a sample of about so many refs. */
const SAMPLE = 2048

/** Refs in order; taken from the head. */
interface Run {
  readonly refs: Ref[]
  head: number
}

/** In the order of versions: the best of all that are met, as sorted runs that are merged while they are taken. */
export class OrderedWindow implements Window {
  readonly #limit: number
  #runs: Ref[][] = []
  #unsorted: Ref[] = []
  #heads = new Heap<Run>((a, b) => compareVersions(headOf(a), headOf(b)) < 0)
  #size = 0
  /** Nothing that comes after this ref is kept. */
  #last: Ref | undefined
  #isOverflowed = false

  constructor(limit: number) {
    this.#limit = limit
  }

  get size(): number {
    return this.#size
  }

  get isOverflowed(): boolean {
    return this.#isOverflowed
  }

  add(ref: Ref): boolean {
    if (this.#last !== undefined && compareVersions(ref, this.#last) > 0) return true
    this.#unsorted.push(ref)
    this.#size++
    if (this.#unsorted.length >= RUN) this.#sort()
    if (this.#size >= SLACK * this.#limit) this.#cut()
    return true
  }

  adopt(other: OrderedWindow, isWanted: (ref: Ref) => boolean): void {
    for (const { refs, head } of other.#heads.values()) {
      const run = refs.slice(head).filter(isWanted)
      this.#runs.push(run)
      this.#size += run.length
    }
  }

  seal(isUnwanted: ((ref: Ref) => boolean) | undefined): void {
    this.#sort()
    if (this.#size > this.#limit) this.#cut()
    const runs =
      isUnwanted === undefined ? this.#runs : this.#runs.map(run => run.filter(ref => !isUnwanted(ref)))
    this.#runs = []
    this.#size = 0
    for (const refs of runs) {
      this.#size += refs.length
      if (refs.length > 0) this.#heads.push({ refs, head: 0 })
    }
  }

  peek(): Ref | undefined {
    const run = this.#heads.peek()
    return run?.refs[run.head]
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

  isBeforeTheRest(ref: Ref): boolean {
    return this.#last === undefined || compareVersions(ref, this.#last) < 0
  }

  #sort(): void {
    if (this.#unsorted.length > 0) this.#runs.push(this.#unsorted.sort(compareVersions))
    this.#unsorted = []
  }

  /** Drops what is beyond the limit. All that stays is better than all that goes, whatever the sample misses. */
  #cut(): void {
    this.#sort()
    const step = Math.max(1, Math.floor(this.#limit / SAMPLE))
    const sample = this.#runs
      .flatMap(run => run.filter((_, i) => i % step === step - 1))
      .sort(compareVersions)
    const last = sample[Math.floor(this.#limit / step) - 1]
    if (last === undefined) return
    this.#last = last
    this.#isOverflowed = true
    this.#size = 0
    for (const run of this.#runs) {
      run.length = firstAfter(run, last)
      this.#size += run.length
    }
    this.#runs = this.#runs.filter(run => run.length > 0)
  }
}

function headOf({ refs, head }: Run): Ref {
  return refs[head] ?? ''
}

/** Where the first ref of a run is that comes after this one. */
function firstAfter(run: readonly Ref[], last: Ref): number {
  let [low, high] = [0, run.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (compareVersions(run[middle] ?? '', last) <= 0) low = middle + 1
    else high = middle
  }
  return low
}
