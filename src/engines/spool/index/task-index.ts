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
import { WaitingList } from './waiting-list.js'

/** The default limit of due refs in memory. */
const WINDOW = 120_000
/** Unreadable refs beyond this number are not remembered as such, so that memory stays bounded. */
const MOST_UNREADABLE = 10_000
const UNREADABLE: readonly Report['kind'][] = ['malformed', 'incomplete', 'unreadable']

// This file is longer than others, because each state of a ref is entered and left here.
/**
 * What the master knows of a directory of any size: a bounded window of the best due refs, the refs that wait, and the refs
 * that are with a worker. A ref is in one of these states:
 *
 *   ready (in the window, or fresh from an event) → busy (with a worker) → forgotten | waiting → ready
 *                                                                        | parked → ready | busy
 *                                                                        | in the queue for a slot → ready
 *
 * Nothing here opens a file: a worker that tries a ref too early, or after others, says so in its report.
 */
export class TaskIndex {
  readonly #frequencyMs: number
  readonly #ready: ReadyRefs
  readonly #busy = new BusyRefs()
  /** The refs that wait for their time. */
  readonly later = new WaitingList()
  /** The refs that may not run now for another reason than their time or a slot. */
  readonly parked: ParkedRefs
  /** The refs that wait for a slot. */
  readonly slots: SlotQueues
  /** True if the scan in progress need not meet more ready refs. */
  #isHarvestFull = false
  /**
   * True if some ready refs are taken for removed by others. If a file was replaced instead, a scan finds it once no ref is
   * ready.
   */
  #isReadyUnsure = false
  /** The same for refs that waited for slots: a scan finds a replaced file once no ref is ready or waits for a slot. */
  #areQueuesUnsure = false
  /** True if the scan in progress lists everything. */
  #isWhole = false
  /** Called with each ref that the scan in progress meets and that waits for its time. */
  #waits: (ref: Ref) => void = () => {}
  readonly #arrivals = new Arrivals()
  readonly #backoff = new Backoff()
  readonly #rivals = new Rivals()
  /**
   * The refs whose file was found not to be a task, or not yet. Refs that wait for a change of the file alone are not here:
   * `later` counts them.
   */
  readonly #unreadable = new Set<Ref>()
  #unseen: Unseen | undefined

  constructor({ order, frequencyMs, windowSize = WINDOW, ...more }: TaskIndexOptions) {
    this.#frequencyMs = frequencyMs
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

  /** Calls back once with each ready ref that may be a task, and when the ref became runnable (epoch µs). In no order. */
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

  /** The refs that are with workers, in the order in which they were taken. */
  get busyRefs(): Iterable<Ref> {
    return this.#busy.refs
  }

  /** The number of refs that are known but may not run now: not yet due, or parked. */
  get waiting(): number {
    return this.later.size + this.parked.size + this.slots.size
  }

  parkedFor(reason: ParkReason): number {
    return reason === 'slot' ? this.slots.size : this.parked.countOf(reason)
  }

  /** The ready refs that nobody has looked at, which may be for later. Without a looker, all count as seen. */
  get unseen(): UnseenStats {
    return this.#unseen?.stats ?? { count: 0, sinceMs: null }
  }

  isUnseen(ref: Ref): boolean {
    return this.#unseen?.has(ref) ?? false
  }

  /** The number of refs whose file is not a task: among the waiting ones, as reported by workers, and among the ready ones. */
  get unreadable(): { readonly later: number; readonly ready: number } {
    return {
      later: Math.min(this.#unreadable.size + this.later.endless, this.later.size),
      ready: this.#unseen?.unreadable ?? 0,
    }
  }

  /**
   * Lets `looker` look, from now on, at ready refs while no worker does.
   *
   * @param found called when some refs have left their place
   */
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

  /** Takes in what a look found at refs that were ready. @returns the refs that still are */
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
    this.#ready.remove(moved.keys())
    for (const [ref, atMs] of moved) if (atMs !== undefined) this.later.add(ref, atMs, true)
    return stay
  }

  close(): void {
    this.#unseen?.close()
  }

  /** True if more refs are due than are known, and the known ones run low: a scan finds the next. */
  get runsLow(): boolean {
    if (this.#ready.runsLow || this.slots.runsLow) return true
    if (this.ready > 0) return false
    return this.#isReadyUnsure || (this.#areQueuesUnsure && this.slots.size === 0)
  }

  /** True if all due refs are known: a scan of what changed since the last one finds the rest. */
  get knowsAll(): boolean {
    return this.#ready.areAll
  }

  /** Takes in an event: the file was created, renamed, written or removed. Returns true if there may be something to run now. */
  changed(ref: Ref, renamed: boolean, nowMs = Date.now()): boolean {
    if (this.#busy.changed(ref, renamed)) return false
    if (this.#ready.changed(ref, renamed)) {
      this.#isReadyUnsure ||= renamed
      return false
    }
    const waited = this.later.endOnChange(ref)
    if (waited === 'goes on') return false
    // the event may be from the worker that parked the ref, which has set the file's time back; and no change of the file gives
    // the task a handler, or undoes its crashes
    if (!renamed && (this.parked.has(ref, 'unknown-name') || this.parked.has(ref, 'crashed'))) return false
    // no change of the file gives the task a slot; the worker that tries the ref sees whether the file is still there
    if (!renamed && this.slots.has(ref)) return false
    if (renamed && this.#isTakenByOthers(ref)) return false
    this.slots.remove(ref)
    this.parked.remove(ref)
    // of a task that ran, the first event may come from its own settling: the ref takes the place of its next run, not that of
    // its name
    if (waited === 'ended' && !this.#backoff.has(ref)) this.#arrivals.runsAt(ref, nowMs)
    this.#backoff.end(ref)
    this.#unseen?.forget(ref)
    this.#unreadable.delete(ref)
    this.#makeReady(ref)
    return true
  }

  /** True if the ref waited for a slot, and whoever ran it has most likely removed its file. The ref is then forgotten. */
  #isTakenByOthers(ref: Ref): boolean {
    if (!this.#rivals.areLikely || !this.slots.has(ref)) return false
    this.slots.remove(ref)
    this.#arrivals.forget(ref)
    this.#areQueuesUnsure = true
    return true
  }

  /** Does what `changed` does, where no events come: this process stored a file. */
  stored(ref: Ref): boolean {
    this.#busy.stored(ref)
    return this.changed(ref, true)
  }

  /** Moves the refs that came due from waiting to ready. */
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

  /** Gives a ref to a worker. @returns false if the ref is elsewhere by now, because an event and a scan both named it */
  #give(ref: Ref, nowMs: number): boolean {
    if (this.#isElsewhere(ref, nowMs)) return false
    this.#given(ref)
    return true
  }

  /** Takes at most `limit` refs parked for this reason, which are busy from now on. Refs without a known name stay. */
  takeParked(reason: FeedReason, limit: number): Ref[] {
    const taken = this.parked.take(reason, limit)
    for (const ref of taken) this.#given(ref)
    return taken
  }

  /** Makes the refs parked for this reason ready, because the reason is over; a scan finds the unknown names. */
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

  /** True if the ref is with a worker, or may not run now. */
  #isElsewhere(ref: Ref, nowMs: number): boolean {
    return this.later.isWaiting(ref, nowMs) || this.#isWithOthers(ref)
  }

  #isWithOthers(ref: Ref): boolean {
    return this.#busy.has(ref) || this.parked.has(ref) || this.slots.has(ref)
  }

  /** Takes note that workers ran these refs to SPOOL_OK. Each file is gone, unless there is a new one of that name. */
  done(refs: readonly Ref[]): void {
    this.#rivals.reported(refs.length, 0)
    const now = performance.now()
    for (const ref of refs) {
      this.#gone(ref, true, now)
      this.slots.ranWithout(ref)
    }
  }

  /** @param now on the clock of `performance.now()` */
  #gone(ref: Ref, isByUs: boolean, now = performance.now()): void {
    const isRenewed = this.#busy.gone(ref, isByUs, now)
    this.#backoff.end(ref)
    this.#arrivals.forget(ref)
    if (isRenewed) this.#makeReady(ref)
  }

  /** Takes in the report of a worker that has finished with a ref. */
  returned(report: Report, nowMs: number): void {
    this.#place(report, nowMs)
    this.slots.reported(report)
  }

  #place(report: Report, nowMs: number): void {
    const { ref } = report
    const isVain = VAIN_KINDS.includes(report.kind) && !this.#busy.isOurs(ref)
    this.#rivals.reported(1, isVain ? 1 : 0)
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
          ? this.slots.add({ ref, time: this.#arrivals.of(ref, nowMs) }, report.slots)
          : this.parked.add(ref, report.reason ?? 'alone', parkedNameOf(report))
        return isParked ? undefined : this.later.add(ref, nowMs + this.#frequencyMs, true)
      }
      case 'malformed':
        return this.later.add(ref, report.atMs ?? Number.POSITIVE_INFINITY, true)
      case 'later':
      case 'unreadable':
      case 'retry': // a change ends the wait, although the change may be our own: `touch` and `spoold kick` mean now
      case 'error':
        return this.later.add(ref, report.atMs ?? nowMs + this.#frequencyMs, true)
      case 'ignore':
      case 'unsettled':
        return this.later.add(ref, report.atMs ?? nowMs + this.#frequencyMs, false)
    }
  }

  /** Makes a ref ready again that its worker has not reported: the worker died, or the ref was withdrawn from it. */
  abandoned(ref: Ref): void {
    this.#busy.abandoned(ref)
    this.#makeReady(ref)
  }

  /**
   * @param recheckWaiting true to look again at every waiting or parked file, because it may have changed without an event; not
   *   at paused ones, crashed ones whose names are known, and those that wait for a slot
   * @param isWhole true if everything is listed
   * @param waits as `recheckWaiting`, but refs that wait for their time go on waiting: this is called with each of them, so
   *   that somebody looks at its file (`laterLooked`)
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

  /** Takes in the name of a task that the scan in progress met. Returns true if the scan should continue. */
  seen(ref: Ref, nowMs: number): boolean {
    if (this.slots.size > 0 && this.slots.met(ref, its => this.#arrivals.of(its, nowMs))) return true
    if (this.#goesOnWaiting(ref, nowMs) || this.#isWithOthers(ref)) return true
    if (!this.#isHarvestFull) this.#isHarvestFull = !this.#ready.seen(ref, this.#arrivals.of(ref, nowMs))
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

  /**
   * Takes in what a look found at the file of a ref that waits for its time: the file has changed without an event.
   *
   * @returns true if the ref may run now
   */
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

  /**
   * @param isListed true if the listing came to its end
   * @returns true if it met everything
   */
  endScan(scanned?: Scanned, isListed = scanned !== undefined): boolean {
    this.slots.endScan(isListed)
    this.#ready.endScan(scanned)
    if (this.ready > 0) this.#unseen?.watch()
    this.#unseen?.doubt()
    const isWhole = this.#isWhole && isListed && !this.#isHarvestFull
    this.later.endListing(isWhole)
    return isWhole
  }

  #makeReady(ref: Ref): void {
    this.#unseen?.watch()
    if (!this.#ready.renew(ref)) this.#ready.add(ref, this.#arrivals.of(ref, Date.now()))
  }
}

interface TaskIndexOptions {
  readonly order: TaskOrder
  readonly frequencyMs: number
  /** The maximum number of due refs in memory; the next scan finds the rest. */
  readonly windowSize?: number
  /** The maximum number of parked refs; further refs wait for one frequency each time. */
  readonly parkedSize?: number
}

/** The kinds after which a ref is tried again after a wait that doubles each time. */
const BACKED_OFF: readonly Report['kind'][] = ['locked', 'incomplete']

/** The first wait for a file that is locked or incomplete: its writer finishes in a moment. */
const BUSY_MS = 2
/**
 * The first wait for a locked file whose ref waited for a slot: the file was written long ago, so whoever has it locked most
 * likely runs it.
 */
const RUNS_MS = 250

/** The minimum number of refs that are remembered: as many as a window has by default. */
const REMEMBERED = 120_000

/** How long to wait for a ref that was found locked or incomplete: twice as long each time in a row. */
class Backoff {
  /** The last wait of each ref; ms. Refs that others have removed are forgotten as further refs come. */
  readonly #waits = new Recent<number>(REMEMBERED)

  has(ref: Ref): boolean {
    return this.#waits.get(ref) !== undefined
  }

  of(ref: Ref, firstMs: number, capMs: number): number {
    const ms = Math.min(2 * (this.#waits.get(ref) ?? firstMs / 2), capMs)
    this.#waits.set(ref, ms)
    return ms
  }

  /** Forgets the wait of a ref that was found in another state. */
  end(ref: Ref): void {
    this.#waits.delete(ref)
  }
}

/** How far the clocks of other hosts may be ahead. A name from further in the future counts as a free name. */
const AHEAD_MS = 1000

/**
 * When each ref became runnable; epoch µs. A generated name tells that itself. Of other names the first sight is remembered,
 * and of a task that ran, the time of its next run. An entry stays until `forget`, or until so many came after it that memory
 * would grow without bound.
 */
class Arrivals {
  readonly #times = new Recent<number>(REMEMBERED)
  #lastSight = 0

  of(ref: Ref, nowMs: number): number {
    const known = this.#times.get(ref)
    if (known !== undefined) return known
    const created = createdAtMicros(ref)
    if (created !== undefined && created <= (nowMs + AHEAD_MS) * 1000) return created
    // a microsecond apart: free names that one look met stay in its order, and cost only a comparison of two numbers
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

/** The kinds that report a ref to which a worker was sent in vain, because somebody else had it. */
const VAIN_KINDS: readonly ReportKind[] = ['gone', 'locked']
const PERIOD_MS = 1000
/** Up to this many reports in vain prove nothing: anybody may remove a few tasks. */
const FEW = 8
/** Others are at work if more than one report in this many is in vain. */
const SHARE = 4
/** The number of next refs among which a daemon with rivals chooses, so that it finds few of those that another has taken. */
const SPREAD = 1000

/**
 * Tells whether other daemons, too, run tasks of this directory. In the same order, all would try each task at once, and all
 * but one in vain. So while others are likely at work, each daemon takes the next refs in an order of its own.
 */
class Rivals {
  /** The reports, and those in vain, since `#since` on the clock of `performance.now()`, and in the period before. */
  #all = 0
  #vain = 0
  #allBefore = 0
  #vainBefore = 0
  #since = 0

  /**
   * Takes in reports.
   *
   * @param vain the number of refs to which a worker was sent in vain, without those that one of our own workers ran, or may have
   *   begun, because then nobody else need be at work
   */
  reported(all: number, vain: number): void {
    this.#turn()
    this.#all += all
    this.#vain += vain
  }

  get areLikely(): boolean {
    if (this.#vain + this.#vainBefore === 0) return false
    this.#turn()
    const vain = this.#vain + this.#vainBefore
    return vain > FEW && vain * SHARE > this.#all + this.#allBefore
  }

  /** The number of next refs among which a daemon chooses. */
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
