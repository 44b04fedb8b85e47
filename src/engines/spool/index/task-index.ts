import type { FeedReason, ParkReason } from '../../../base/task/parked.js'
import type { Ref } from '../../../base/task/ref.js'
import {
  type Found,
  GONE_KINDS,
  type Looker,
  parkedNameOf,
  type Report,
  type ReportKind,
  waitsForSlot,
} from '../../../base/task/report.js'
import { createdAtMicros } from '../names.js'
import type { TaskOrder } from '../task-order.js'
import { BusyRefs } from './busy-refs.js'
import { ParkedRefs } from './parked-refs.js'
import { ReadyRefs, type Scanned } from './ready-refs.js'
import { Recent } from './recent.js'
import { SlotQueues } from './slot-queues.js'
import { Unseen, type UnseenStats } from './unseen.js'
import { type ListingEnd, WaitingList } from './waiting-list.js'

const WINDOW = 120_000
/** Of further ones it is not known. */
const MOST_UNREADABLE = 10_000
const UNREADABLE: readonly Report['kind'][] = ['malformed', 'incomplete', 'unreadable']

// Longer than others: each state of a ref is entered and left here.
/**
 * What the master knows of a directory of any size: a bounded window of the best due refs, the refs that wait, and
 * those that are with a worker. A ref is in one of these states:
 *
 *   ready (in the window, or fresh from an event) → busy (with a worker) → forgotten | waiting → ready
 *                                                                        | parked → ready | busy
 *                                                                        | in the queue for a slot → ready
 *
 * Nothing here opens a file: a worker that tries a ref too early, or after others, says so in its report.
 */
export class TaskIndex {
  readonly #frequencyMs: number
  /** Of no use to an order by name. */
  readonly #isByTime: boolean
  readonly #ready: ReadyRefs
  readonly #busy = new BusyRefs()
  /** Those that wait for their time. */
  readonly later = new WaitingList()
  /** What may not run now for another reason than a slot. */
  readonly parked: ParkedRefs
  readonly slots: SlotQueues
  /** The scan in progress need not meet more of what is ready. */
  #isHarvestFull = false
  /** Some that were ready are taken for removed by others. If one was replaced instead, a scan finds it, once none is ready. */
  #isReadyUnsure = false
  /** The same of those that waited for slots; once none waits. */
  #areQueuesUnsure = false
  /** The scan in progress lists everything. */
  #isWhole = false
  /** Told by the scan in progress what waits for its time. */
  #waits: (ref: Ref) => void = () => {}
  readonly #arrivals = new Arrivals()
  readonly #backoff = new Backoff()
  readonly #rivals = new Rivals()
  /** What was found at their names is no task, or none yet; where that is for good, only a change of the file ends the wait. */
  readonly #unreadable = new Set<Ref>()
  #unseen: Unseen | undefined

  constructor({ order, frequencyMs, windowSize = WINDOW, ...more }: TaskIndexOptions) {
    this.#frequencyMs = frequencyMs
    this.#isByTime = order !== 'name'
    this.#ready = new ReadyRefs(order, windowSize)
    this.parked = new ParkedRefs(more.parkedSize)
    const places = {
      ready: this.#ready,
      busy: this.#busy,
      makeReady: (ref: Ref) => this.#makeReady(ref),
      takeFirst: (ref: Ref) => this.#ready.next() === ref && this.#give(ref, Date.now()),
      haveRivals: () => this.#rivals.areLikely,
    }
    this.slots = new SlotQueues(order, places, more.parkedSize)
  }

  get ready(): number {
    return this.#ready.size
  }

  /** Calls back with each ready ref that may be a task, once, and when it became runnable (epoch µs; 0: see its name). In no order. */
  eachReady(visit: (ref: Ref, time: number) => void, nowMs: number): void {
    this.#ready.each((ref, time) => {
      const isNone = this.#isElsewhere(ref, nowMs) || this.#unseen?.isUnreadable(ref) === true
      if (!isNone) visit(ref, time)
    })
  }

  get size(): number {
    return this.ready + this.busy + this.waiting
  }

  get busy(): number {
    return this.#busy.size
  }

  /** In the order in which they were taken. */
  get busyRefs(): Iterable<Ref> {
    return this.#busy.refs
  }

  /** Known, but not to run now: not yet due, or parked. */
  get waiting(): number {
    return this.later.size + this.parked.size + this.slots.size
  }

  parkedFor(reason: ParkReason): number {
    return reason === 'slot' ? this.slots.size : this.parked.countOf(reason)
  }

  /** The ready ones that nobody has looked at: they may be for later. Where nobody is there to look, all count as seen. */
  get unseen(): UnseenStats {
    return this.#unseen?.stats ?? { count: 0, sinceMs: null }
  }

  isUnseen(ref: Ref): boolean {
    return this.#unseen?.has(ref) ?? false
  }

  /** How many are no tasks: of those that wait, as a worker has said, and of those that are ready. */
  get unreadable(): { readonly later: number; readonly ready: number } {
    return {
      later: Math.min(this.#unreadable.size + this.later.endless, this.later.size),
      ready: this.#unseen?.unreadable ?? 0,
    }
  }

  /** From now on this looks at those that are ready while no worker does. @param found some have left their place */
  lookBy(looker: Looker, found: () => void): void {
    this.#unseen = new Unseen(looker, {
      count: () => this.ready,
      each: visit => this.#ready.each(visit),
      first: limit => this.#first(limit),
      found: (refs, what) => {
        const stay = this.#looked(refs, what, Date.now())
        if (stay.length < refs.length) found()
        return stay
      },
    })
    if (this.ready > 0) this.#unseen.watch()
  }

  #first(limit: number): Ref[] {
    const nowMs = Date.now()
    const refs: Ref[] = []
    let left = limit
    this.#ready.each(ref => {
      if (!this.#isElsewhere(ref, nowMs)) refs.push(ref)
      return --left > 0
    })
    return refs
  }

  /** Somebody has looked at these, which were ready. @returns those that are so still */
  #looked(refs: readonly Ref[], found: readonly Found[], nowMs: number): Ref[] {
    const moved = new Map<Ref, number | undefined>()
    const stay: Ref[] = []
    for (const [place, ref] of refs.entries()) {
      const what = found[place]
      if (this.#isElsewhere(ref, nowMs)) continue
      if (what === 'gone') moved.set(ref, undefined)
      else if (typeof what === 'number' && what > nowMs) moved.set(ref, what)
      else stay.push(ref)
    }
    this.#ready.remove(new Set(moved.keys()))
    for (const [ref, atMs] of moved) if (atMs !== undefined) this.later.add(ref, atMs, true)
    return stay
  }

  close(): void {
    this.#unseen?.close()
  }

  /** More refs are due than are known, and the known ones run low: a scan finds the next. */
  get runsLow(): boolean {
    if (this.#ready.runsLow || this.slots.runsLow) return true
    if (this.ready > 0) return false
    return this.#isReadyUnsure || (this.#areQueuesUnsure && this.slots.size === 0)
  }

  /** All due refs are known: a scan of what changed since the last one finds the rest. */
  get knowsAll(): boolean {
    return this.#ready.areAll
  }

  /** The file was created, renamed, written or removed. Returns whether there may be something to run now. */
  changed(ref: Ref, renamed: boolean, nowMs = Date.now()): boolean {
    if (this.#busy.changed(ref, renamed)) return false
    if (this.#ready.changed(ref, renamed)) {
      this.#isReadyUnsure ||= renamed
      return false
    }
    const waited = this.later.endOnChange(ref)
    if (waited === 'goes on') return false
    // the worker that parked it has set its time back; no change gives it a handler, or undoes its crashes
    if (!renamed && (this.parked.has(ref, 'unknown-name') || this.parked.has(ref, 'crashed'))) return false
    // no change of the file gives it a slot; whether it is there yet, the worker sees that tries it
    if (!renamed && this.slots.has(ref)) return false
    if (renamed && this.#isTakenByOthers(ref)) return false
    this.slots.remove(ref)
    this.parked.remove(ref)
    // of a task that ran, the first event may be of its own settling: its place is that of its next run
    if (waited === 'ended' && !this.#backoff.has(ref)) this.#arrivals.runsAt(ref, nowMs)
    this.#backoff.end(ref)
    this.#unseen?.forget(ref)
    this.#unreadable.delete(ref)
    this.#makeReady(ref)
    return true
  }

  /** It waited for a slot, and whoever ran it has removed it. */
  #isTakenByOthers(ref: Ref): boolean {
    if (!this.#rivals.areLikely || !this.slots.has(ref)) return false
    this.slots.remove(ref)
    this.#arrivals.forget(ref)
    this.#areQueuesUnsure = true
    return true
  }

  /** As `changed`, where no events come: a file was stored here. */
  stored(ref: Ref): boolean {
    this.#busy.stored(ref)
    return this.changed(ref, true)
  }

  /** Moves what came due from waiting to ready. */
  promote(nowMs: number): void {
    for (let due = this.later.popDue(nowMs); due !== undefined; due = this.later.popDue(nowMs)) {
      const { ref, atMs } = due
      if (this.#busy.has(ref)) continue
      if (!this.#backoff.has(ref)) this.#arrivals.runsAt(ref, atMs) // a locked or incomplete task has already been runnable
      this.#makeReady(ref)
    }
  }

  /** Takes the best `limit` refs, which are busy from now on. */
  take(limit: number, nowMs = Date.now()): Ref[] {
    const taken: Ref[] = []
    while (taken.length < limit) {
      const ref = this.#ready.next(this.#rivals.spread)
      if (ref === undefined) break
      if (this.#give(ref, nowMs)) taken.push(ref)
    }
    return taken
  }

  /** @returns false if it is elsewhere by now: named by an event and by a scan */
  #give(ref: Ref, nowMs: number): boolean {
    if (this.#isElsewhere(ref, nowMs)) return false
    this.#given(ref)
    return true
  }

  /** Takes at most `limit` refs parked for this reason, which are busy from now on. Those without a known name stay. */
  takeParked(reason: FeedReason, limit: number): Ref[] {
    const taken = this.parked.take(reason, limit)
    for (const ref of taken) this.#given(ref)
    return taken
  }

  /** The reason is over: the refs parked for it are ready; a scan finds the unknown names. */
  unpark(reason: FeedReason): void {
    const count = this.parked.countOf(reason)
    const named = this.parked.take(reason, count)
    for (const ref of named) this.#makeReady(ref)
    if (named.length < count) this.#ready.missSome()
    this.parked.clearReason(reason)
  }

  #given(ref: Ref): void {
    this.#unseen?.given(ref)
    if (this.#unreadable.size > 0) this.#unreadable.delete(ref)
    this.#busy.add(ref)
    this.#ready.given(ref)
  }

  /** It is with a worker, or not to run now. */
  #isElsewhere(ref: Ref, nowMs: number): boolean {
    return this.later.isWaiting(ref, nowMs) || this.#isWithOthers(ref)
  }

  #isWithOthers(ref: Ref): boolean {
    return this.#busy.has(ref) || this.parked.has(ref) || this.slots.has(ref)
  }

  /** A worker ran it to SPOOL_OK, and it is gone, unless there is a new file of that name. */
  done(ref: Ref): void {
    this.#rivals.reported(false)
    this.#gone(ref, true)
    this.slots.ranWithout(ref)
  }

  #gone(ref: Ref, isByUs: boolean): void {
    const isRenewed = this.#busy.gone(ref, isByUs)
    this.#backoff.end(ref)
    this.#arrivals.forget(ref)
    if (isRenewed) this.#makeReady(ref)
  }

  /** A worker has finished with it. */
  returned(report: Report, nowMs: number): void {
    this.#place(report, nowMs)
    this.slots.reported(report)
  }

  #place(report: Report, nowMs: number): void {
    const { ref } = report
    this.#rivals.reported(VAIN_KINDS.includes(report.kind) && !this.#busy.isOurs(ref))
    if (GONE_KINDS.includes(report.kind)) return this.#gone(ref, report.kind !== 'gone')
    const isTouched = this.#busy.isTouched(ref)
    const isRenamed = this.#busy.isRenamed(ref)
    this.#busy.end(ref)
    if (!BACKED_OFF.includes(report.kind)) this.#backoff.end(ref)
    const isForGood = report.kind === 'malformed' && report.atMs === undefined
    if (UNREADABLE.includes(report.kind) && !isForGood && this.#unreadable.size < MOST_UNREADABLE)
      this.#unreadable.add(ref)
    // the worker has written nothing: somebody else did
    if (isForGood ? isTouched || isRenamed : isTouched && report.kind === 'later') return this.#makeReady(ref)
    switch (report.kind) {
      case 'untouched':
        this.#makeReady(ref)
        return
      case 'locked': {
        const firstMs = this.slots.isTry(ref) ? RUNS_MS : BUSY_MS
        const capMs = Math.min(1000, this.#frequencyMs)
        return this.later.add(ref, nowMs + this.#backoff.of(ref, firstMs, capMs), true)
      }
      case 'incomplete':
        return this.later.add(ref, nowMs + this.#backoff.of(ref, BUSY_MS, this.#frequencyMs), true)
      case 'parked': {
        const isParked = waitsForSlot(report)
          ? this.slots.add({ ref, time: this.#timeOf(ref, nowMs) }, report.slots)
          : this.parked.add(ref, report.reason ?? 'alone', parkedNameOf(report))
        return isParked ? undefined : this.later.add(ref, nowMs + this.#frequencyMs, true)
      }
      case 'malformed':
        return this.later.add(ref, report.atMs ?? Number.POSITIVE_INFINITY, true)
      case 'later':
      case 'unreadable':
      case 'retry': // a change ends the wait, although it may be our own: `touch` and `spoold kick` mean now
      case 'error':
        return this.later.add(ref, report.atMs ?? nowMs + this.#frequencyMs, true)
      case 'ignore':
      case 'unsettled':
        return this.later.add(ref, report.atMs ?? nowMs + this.#frequencyMs, false)
    }
  }

  /** Its worker died. */
  abandoned(ref: Ref): void {
    this.#busy.abandoned(ref)
    this.#makeReady(ref)
  }

  /** Somebody has looked at these, which were abandoned: workers have those in `begun` again. What is not ready is elsewhere by now. */
  found(begun: readonly Ref[], reports: readonly Report[], nowMs: number): void {
    const ready = this.#ready.remove(new Set([...begun, ...reports.map(({ ref }) => ref)]))
    for (const ref of ready) this.#given(ref)
    for (const report of reports) {
      if (!ready.has(report.ref)) continue
      if (report.kind === 'gone') this.#gone(report.ref, true)
      else this.#place(report, nowMs)
    }
  }

  /**
   * @param recheckWaiting look again at every waiting or parked file, but paused ones, those that have crashed, and those that
   *   wait for a slot: it may have changed without an event
   * @param isWhole everything is listed
   * @param waits do so, but of what waits for its time only tell this: somebody looks at it (`laterLooked`)
   */
  beginScan(recheckWaiting: boolean, isWhole = true, waits?: (ref: Ref) => void): void {
    if (recheckWaiting) {
      this.later.clear()
      this.#unreadable.clear()
    }
    if (recheckWaiting || waits !== undefined) this.parked.clearDoubtful()
    if (isWhole) this.slots.beginScan()
    if (isWhole) this.later.beginListing()
    this.#isWhole = isWhole
    this.#waits = waits ?? (() => {})
    this.#isHarvestFull = false
    this.#isReadyUnsure = false
    this.#areQueuesUnsure = false
    this.#ready.beginScan()
  }

  /** The scan in progress met a task's name. Returns whether it should continue. */
  seen(ref: Ref, nowMs: number): boolean {
    if (this.slots.size > 0 && this.slots.met(ref, its => this.#timeOf(its, nowMs))) return true
    if (this.#goesOnWaiting(ref, nowMs) || this.#isWithOthers(ref)) return true
    if (!this.#isHarvestFull) this.#isHarvestFull = !this.#ready.seen(ref, this.#timeOf(ref, nowMs))
    return !this.#isHarvestFull || this.slots.isHarvesting
  }

  #goesOnWaiting(ref: Ref, nowMs: number): boolean {
    const atMs = this.later.met(ref, nowMs)
    if (atMs === undefined) return false
    if (atMs > nowMs) {
      this.#waits(ref)
      return true
    }
    if (!this.#backoff.has(ref)) this.#arrivals.runsAt(ref, Math.min(atMs, nowMs))
    return false
  }

  /** The file of one that waits for its time has changed without an event: somebody has looked at it. @returns whether it may run now */
  laterLooked(ref: Ref, found: Found, nowMs: number): boolean {
    if (found === 'gone' || this.#isWithOthers(ref) || this.later.endOnChange(ref) !== 'ended') return false
    if (typeof found === 'number' && found > nowMs) {
      this.later.add(ref, found, true)
      return false
    }
    if (!this.#backoff.has(ref)) this.#arrivals.runsAt(ref, nowMs)
    this.#makeReady(ref)
    return true
  }

  /** @param isListed it came to its end */
  endScan(scanned?: Scanned, isListed = scanned !== undefined): ListingEnd {
    this.slots.endScan(isListed)
    this.#ready.endScan(scanned)
    if (this.ready > 0) this.#unseen?.watch()
    this.#unseen?.doubt()
    return this.later.endListing(this.#isWhole && isListed && !this.#isHarvestFull)
  }

  #makeReady(ref: Ref): void {
    this.#unseen?.watch()
    if (!this.#ready.renew(ref)) this.#ready.add(ref, this.#timeOf(ref, Date.now()))
  }

  #timeOf(ref: Ref, nowMs: number): number {
    return this.#isByTime ? this.#arrivals.of(ref, nowMs) : 0
  }
}

interface TaskIndexOptions {
  readonly order: TaskOrder
  readonly frequencyMs: number
  /** The maximum number of due refs in memory; the next scan finds the rest. */
  readonly windowSize?: number
  /** The maximum number of parked refs; further ones wait for a frequency each time. */
  readonly parkedSize?: number
}

/** Retried after a wait that doubles. */
const BACKED_OFF: readonly Report['kind'][] = ['locked', 'incomplete']

/** A writer finishes in a moment. */
const BUSY_MS = 2
/** One that waited for a slot has been written long ago: whoever has it locked most likely runs it. */
const RUNS_MS = 250

/** More than a window has refs. */
const REMEMBERED = 120_000

/** How long to wait for a ref that was found locked or incomplete: twice as long as the last time in a row. */
class Backoff {
  /** In ms. Those that others have removed are forgotten as others come. */
  readonly #waits = new Recent<number>(REMEMBERED)

  has(ref: Ref): boolean {
    return this.#waits.get(ref) !== undefined
  }

  of(ref: Ref, firstMs: number, capMs: number): number {
    const ms = Math.min(2 * (this.#waits.get(ref) ?? firstMs / 2), capMs)
    this.#waits.set(ref, ms)
    return ms
  }

  /** It was found in another state. */
  end(ref: Ref): void {
    this.#waits.delete(ref)
  }
}

/** Clocks of other hosts may be ahead by so much; a name from further in the future counts as a free one. */
const AHEAD_MS = 1000

/**
 * When each ref became runnable; epoch µs. A generated name says so itself. Of others the first sight is remembered, and
 * of a task that ran the time of its next run: until they are forgotten, or so many came after them that memory is bounded.
 */
class Arrivals {
  readonly #times = new Recent<number>(REMEMBERED)
  #lastSight = 0

  of(ref: Ref, nowMs: number): number {
    const known = this.#times.get(ref)
    if (known !== undefined) return known
    const created = createdAtMicros(ref)
    if (created !== undefined && created <= (nowMs + AHEAD_MS) * 1000) return created
    // a microsecond apart: free names that one look met stay in its order, and are compared at the price of two numbers
    this.#lastSight = Math.max(nowMs * 1000, this.#lastSight + 1)
    this.#times.set(ref, this.#lastSight)
    return this.#lastSight
  }

  runsAt(ref: Ref, atMs: number): void {
    this.#times.set(ref, atMs * 1000)
  }

  forget(ref: Ref): void {
    this.#times.delete(ref)
  }
}

/** What a worker was sent to in vain, because somebody else had it. */
const VAIN_KINDS: readonly ReportKind[] = ['gone', 'locked']
const PERIOD_MS = 1000
/** So many in vain may be anybody's doing, who removes a few tasks. */
const FEW = 8
/** More of them are in vain than one in so many. */
const SHARE = 4
/** How far apart two daemons may be in the same order: one finds few of those that the other has taken. */
const SPREAD = 1000

/**
 * Whether others, too, run tasks of this directory. In the same order, all would try each task at once, and all but one in vain; so
 * while they do, each takes those that come next in an order of its own.
 */
class Rivals {
  /** Reports, and those in vain, since `#since` on the clock of `performance.now()`; and in the period before. */
  #all = 0
  #vain = 0
  #allBefore = 0
  #vainBefore = 0
  #since = 0

  /** @param isVain not if one of our own workers ran it, or may have begun it: nobody else need be there then */
  reported(isVain: boolean): void {
    this.#turn()
    this.#all++
    if (isVain) this.#vain++
  }

  get areLikely(): boolean {
    if (this.#vain + this.#vainBefore === 0) return false
    this.#turn()
    const vain = this.#vain + this.#vainBefore
    return vain > FEW && vain * SHARE > this.#all + this.#allBefore
  }

  /** Among how many that come next a daemon chooses. */
  get spread(): number {
    return this.areLikely ? SPREAD : 1
  }

  #turn(): void {
    const now = performance.now()
    if (now < this.#since + PERIOD_MS) return
    const isNext = now < this.#since + 2 * PERIOD_MS
    this.#allBefore = isNext ? this.#all : 0
    this.#vainBefore = isNext ? this.#vain : 0
    this.#all = 0
    this.#vain = 0
    this.#since = now
  }
}
