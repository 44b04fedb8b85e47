import { Heap } from '../../base/heap.js'
import { prefixOf, type Ref } from '../../task/ref.js'
import type { ParkReason, Report } from '../../task/report.js'
import { COMPARE_TASKS, type TaskOrder } from '../task-order.js'
import { ArrivalWindow } from './arrival-window.js'
import { Arrivals } from './arrivals.js'
import { ParkedRefs } from './parked-refs.js'
import { Patience } from './patience.js'
import { WaitingList } from './waiting-list.js'
import { type Placed, SortedWindow, type Window } from './window.js'

// Longer than others: the states of a ref, and all their transitions, are in one place.
interface TaskIndexOptions {
  readonly order: TaskOrder
  readonly frequencyMs: number
  /** The maximum number of due refs in memory; the next scan finds the rest. */
  readonly windowSize?: number
  /** The maximum number of parked refs; further ones wait for a frequency each time. */
  readonly parkedSize?: number
}

const WINDOW = 120_000
/** Its file has left its place. */
const GONE_KINDS: readonly Report['kind'][] = ['ok', 'gone', 'buried', 'set-aside']
/** Retried after a wait that doubles. */
const PATIENT_KINDS: readonly Report['kind'][] = ['locked', 'incomplete']

/**
 * What the master knows of a directory of any size: a bounded window of the best due refs, the refs that wait, and
 * those that are with a worker. A ref is in one of these states:
 *
 *   ready (in the window, or fresh from an event) → busy (with a worker) → forgotten | waiting → ready
 *                                                                        | parked → ready | busy
 *
 * Nothing here opens or stats a file: a worker that tries a ref too early says so in its report.
 */
export class TaskIndex {
  readonly #order: TaskOrder
  readonly #frequencyMs: number
  readonly #windowSize: number
  /** The refs that the last scan met. */
  #window: Window
  /** Refs that became ready since that scan. */
  readonly #fresh: Heap<Placed>
  readonly #freshNames = new Set<Ref>()
  /** With a worker; the number counts the renames seen since: one is our own unlink, a second a new file of that name. */
  readonly #busy = new Map<Ref, number>()
  readonly #waiting = new WaitingList()
  readonly #parked: ParkedRefs
  readonly #arrivals = new Arrivals()
  readonly #patience = new Patience()
  /** More refs are due than the window holds. */
  #overflowed = false
  /** A scan in progress: what it has found so far, and what was given away in the meantime. */
  #harvest: Window | undefined
  readonly #takenSinceScan = new Set<Ref>()

  constructor({ order, frequencyMs, windowSize = WINDOW, parkedSize }: TaskIndexOptions) {
    const compare = COMPARE_TASKS[order]
    this.#order = order
    this.#frequencyMs = frequencyMs
    this.#windowSize = windowSize
    this.#parked = new ParkedRefs(parkedSize)
    this.#window = this.#newWindow()
    this.#fresh = new Heap<Placed>((a, b) => compare(a.ref, a.time, b.ref, b.time) < 0)
  }

  get ready(): number {
    return this.#window.size + this.#freshNames.size
  }

  /** Calls back with each ready ref, once, and when it became runnable (epoch µs; 0: see its name). In no order. */
  eachReady(visit: (ref: Ref, time: number) => void, nowMs: number): void {
    const meet = (ref: Ref, time: number) => this.#isElsewhere(ref, nowMs) || visit(ref, time)
    this.#window.each((ref, time) => this.#freshNames.has(ref) || meet(ref, time))
    for (const { ref, time } of this.#fresh.values()) meet(ref, time)
  }

  /** Everything it knows. */
  get size(): number {
    return this.ready + this.busy + this.waiting
  }

  get busy(): number {
    return this.#busy.size
  }

  /** Known, but not to run now: not yet due, or parked. */
  get waiting(): number {
    return this.#waiting.size + this.#parked.size
  }

  parkedFor(reason: ParkReason): number {
    return this.#parked.countOf(reason)
  }

  /** Epoch ms of the next ref that comes due by itself. */
  get nextAtMs(): number {
    return Math.min(this.#waiting.nextAtMs, this.#waiting.horizonMs)
  }

  /** More refs are due than are known, and the known ones run low: a scan finds the next. */
  get runsLow(): boolean {
    return this.#overflowed && this.#window.size < this.#windowSize / 4
  }

  /** All due refs are known: a scan of what changed since the last one finds the rest. */
  get knowsAll(): boolean {
    return !this.#overflowed
  }

  /** Some waiting refs came due, and only a recheckWaiting scan can find their names. */
  isPastHorizon(nowMs: number): boolean {
    return this.#waiting.horizonMs <= nowMs
  }

  /** The file was created, renamed, written or removed. Returns whether there may be something to run now. */
  changed(ref: Ref, renamed: boolean): boolean {
    const renames = this.#busy.get(ref)
    if (renames !== undefined) {
      if (renamed) this.#busy.set(ref, renames + 1)
      return false
    }
    if (!this.#waiting.endOnChange(ref)) return false
    this.#parked.remove(ref)
    this.#patience.end(ref)
    this.#makeReady(ref)
    return true
  }

  /** Moves what came due from waiting to ready. */
  promote(nowMs: number): void {
    for (;;) {
      const due = this.#waiting.popDue(nowMs)
      if (due === undefined) return
      const { ref, atMs } = due
      if (this.#busy.has(ref)) continue
      if (!this.#patience.has(ref)) this.#arrivals.runsAt(ref, atMs) // a locked or incomplete task has already been runnable
      this.#makeReady(ref)
    }
  }

  /** Takes the best `limit` refs, which are busy from now on. */
  take(limit: number, nowMs = Date.now()): Ref[] {
    const taken: Ref[] = []
    while (taken.length < limit) {
      const ref = this.#next()
      if (ref === undefined) break
      if (this.#isElsewhere(ref, nowMs)) continue // named by an event and by a scan
      this.#give(ref)
      taken.push(ref)
    }
    return taken
  }

  /** Takes at most `limit` refs parked for this reason, which are busy from now on. Those without a known name stay. */
  takeParked(reason: ParkReason, limit: number): Ref[] {
    const taken = this.#parked.take(reason, limit)
    for (const ref of taken) this.#give(ref)
    return taken
  }

  /** The reason is over: the refs parked for it are ready; a scan finds the unknown names. */
  unpark(reason: ParkReason): void {
    const count = this.#parked.countOf(reason)
    const named = this.#parked.take(reason, count)
    for (const ref of named) this.#makeReady(ref)
    this.#overflowed ||= named.length < count
    this.#parked.clearReason(reason)
  }

  #give(ref: Ref): void {
    this.#busy.set(ref, 0)
    if (this.#harvest !== undefined) this.#takenSinceScan.add(ref)
  }

  /** It is with a worker, or not to run now. */
  #isElsewhere(ref: Ref, nowMs: number): boolean {
    const isBusy = this.#busy.size > 0 && this.#busy.has(ref) // an empty map computes the hash of each name, too
    return isBusy || this.#waiting.isWaiting(ref, nowMs) || this.#parked.has(ref)
  }

  /** A worker ran it to SPOOL_OK, and it is gone, unless there is a new file of that name. */
  done(ref: Ref): void {
    const renames = this.#busy.get(ref) ?? 0
    this.#busy.delete(ref)
    this.#patience.end(ref)
    this.#arrivals.forget(ref)
    if (renames > 1) this.#makeReady(ref)
  }

  /** A worker has finished with it. */
  returned(report: Report, nowMs: number): void {
    const { ref } = report
    if (GONE_KINDS.includes(report.kind)) return this.done(ref)
    this.#busy.delete(ref)
    if (!PATIENT_KINDS.includes(report.kind)) this.#patience.end(ref)
    switch (report.kind) {
      case 'untouched':
        this.#makeReady(ref)
        return
      case 'locked':
        return this.#waiting.add(ref, nowMs + this.#patience.of(ref, Math.min(1000, this.#frequencyMs)), true)
      case 'incomplete':
        return this.#waiting.add(ref, nowMs + this.#patience.of(ref, this.#frequencyMs), true)
      case 'parked': {
        const isParked = this.#parked.add(ref, report.reason ?? 'alone')
        return isParked ? undefined : this.#waiting.add(ref, nowMs + this.#frequencyMs, true)
      }
      case 'later':
      case 'malformed':
      case 'unreadable':
      case 'retry': // a change ends the wait, although it may be our own: `touch` and `spoold kick` mean now
      case 'error':
        return this.#waiting.add(ref, report.atMs ?? nowMs + this.#frequencyMs, true)
      case 'ignore':
      case 'unsettled':
        return this.#waiting.add(ref, report.atMs ?? nowMs + this.#frequencyMs, false)
    }
  }

  /** Its worker died. */
  abandoned(ref: Ref): void {
    this.#busy.delete(ref)
    this.#makeReady(ref)
  }

  /** @param recheckWaiting look again at every waiting or parked file, but paused ones: it may have changed without an event */
  beginScan(recheckWaiting: boolean): void {
    if (recheckWaiting) {
      this.#waiting.clear()
      this.#parked.clearDoubtful()
    }
    this.#harvest = this.#newWindow()
    this.#takenSinceScan.clear()
    this.#overflowed = false
  }

  /** The scan in progress met a task's name. Returns whether it should continue. */
  seen(ref: Ref, nowMs: number): boolean {
    const harvest = this.#harvest
    if (harvest === undefined) return false
    if (this.#isElsewhere(ref, nowMs)) return true
    const isWorthMore = harvest.add(ref, this.#timeOf(ref, nowMs))
    this.#overflowed ||= harvest.isOverflowed
    return isWorthMore
  }

  /** @param isAsBefore what is known of this directory (its prefix) is still true: the scan left it out */
  endScan(isAsBefore?: (prefix: string) => boolean): void {
    const harvest = this.#harvest ?? this.#newWindow()
    this.#harvest = undefined
    if (isAsBefore !== undefined) harvest.adopt(this.#window, ref => isAsBefore(prefixOf(ref)))
    const isNowhereElse = this.#takenSinceScan.size === 0 && this.#freshNames.size === 0
    harvest.seal(isNowhereElse ? undefined : ref => this.#isGivenOrFresh(ref))
    this.#overflowed ||= harvest.isOverflowed
    this.#window = harvest
    this.#takenSinceScan.clear()
  }

  /** Given away since the scan met it, or ready by an event. (With a full window, a fresh ref may be listed twice.) */
  #isGivenOrFresh(ref: Ref): boolean {
    return this.#takenSinceScan.has(ref) || (!this.#overflowed && this.#freshNames.has(ref))
  }

  #newWindow(): Window {
    return this.#order === 'arrival'
      ? new ArrivalWindow(this.#windowSize)
      : new SortedWindow(this.#order, this.#windowSize)
  }

  #makeReady(ref: Ref): void {
    if (this.#freshNames.has(ref)) return
    if (this.#freshNames.size >= this.#windowSize) {
      this.#overflowed = true
      return
    }
    this.#freshNames.add(ref)
    this.#fresh.push({ ref, time: this.#timeOf(ref, Date.now()) })
  }

  /** When it became runnable; of no use to an order by name. */
  #timeOf(ref: Ref, nowMs: number): number {
    return this.#order === 'name' ? 0 : this.#arrivals.of(ref, nowMs)
  }

  #next(): Ref | undefined {
    const fresh = this.#fresh.peek()
    if (fresh === undefined || !this.#comesFirst(fresh)) return this.#window.next()
    this.#fresh.pop()
    this.#freshNames.delete(fresh.ref)
    return fresh.ref
  }

  #comesFirst(fresh: Placed): boolean {
    const first = this.#window.peek()
    if (first === undefined) return this.#window.isBeforeTheRest(fresh)
    return COMPARE_TASKS[this.#order](fresh.ref, fresh.time, first.ref, first.time) < 0
  }
}
