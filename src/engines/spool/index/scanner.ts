import type { Stats } from 'node:fs'
import { Alarm, Stall } from '../../../base/clock.js'
import { errnoOf, messageOf, quietly } from '../../../base/errors.js'
import type { Emitter } from '../../../base/events/emitter.js'
import { COARSEST_TIME_MS } from '../../../base/own-clock.js'
import { displayName, type Ref, toByteString, toFsPath } from '../../../base/task/ref.js'
import type { Looker } from '../../../base/task/report.js'
import { lstatSync } from '../../../system/files/anchored-path.js'
import type { WatchChoice } from '../../../system/files/directory-watch.js'
import { meetAtOnce } from '../../../system/files/entries.js'
import { directoryOf, isLocal, stampTaker } from '../../../system/files/stamps.js'
import type { LookStats } from '../../contracts/look-stats.js'
import { hasUwsgiPrefix } from '../names.js'
import { type ScanVisitor, scanSpool } from '../scan.js'
import { Directories } from './directories.js'
import { DrainRate, LONG_BACKLOG, ScanTimetable } from './scan-timetable.js'
import type { TaskIndex } from './task-index.js'
import { Watches, type WatchesOptions } from './watches.js'

/** The size of a directory with a long backlog: an entry takes 20 bytes on tmpfs, and more on disks. */
const LONG_BACKLOG_BYTES = 20 * LONG_BACKLOG

/** The minimum time between two looks at waiting files where events tell of changes: some events may be lost. */
const LOOK_WATCHED_MS = 60_000
/** The maximum number of waiting refs that are looked at after one listing, because their names are in memory meanwhile. */
const MOST_LOOKED_AT = 50_000
const LOOKED_AT_ONCE = 1000
/**
 * With more ready refs than this, no listing follows a look aside that has moved refs: it would cost more than a count that is
 * right at once.
 */
const MOST_LISTED_AGAIN = 10_000

interface Round {
  passed: number
  begun: { readonly atMs: number; readonly offsetMs: number }
}

// This file is longer than others, because what a look lists depends on which events are listened to, and the other way round.
type ScannerOptions = WatchesOptions & { readonly watch: WatchChoice }

/**
 * Keeps a TaskIndex true to its directory. The scan is the truth: it waits for nothing but the directory, comes every
 * `frequencyMs`, and lists the directories whose stamps do not prove that nothing was made or removed there. Events and
 * `scanNow` only bring the scan (or the look at a single name) forward. Where other hosts raise no events, the stamps are
 * compared every second.
 *
 * Watches on large directories are suspended while workers drain a long backlog fast.
 */
export class Scanner {
  readonly #options: ScannerOptions
  readonly #timetable: ScanTimetable
  readonly #index: TaskIndex
  readonly #wakeUp: () => void
  readonly #watches: Watches
  readonly #directories: Directories
  readonly #race = new DrainRate()
  readonly #alarm = new Alarm(() => void this.#turn())
  readonly #news: ScanNews
  #turning: Promise<void> | undefined
  /** Counts what the scan has met, as proof that a long scan goes on. */
  #signs = 0
  readonly #stall = new Stall()
  #isLocal = false
  #isClosed = false
  #isSuspended = false
  /** When the last look at all waiting refs began: the wall clock, and its offset at the time. */
  #lookedAt = { atMs: Date.now(), offsetMs: clockOffsetMs() }
  /** Looks at files for this process; undefined if nobody does. */
  #looker: Looker | undefined
  #isLooking = false
  /** True if events were not listened to for a while. Waiting refs are looked at again once events are listened to. */
  #hasMissed = false
  /** True if events may have been lost since the last look at waiting refs began. */
  #wasUnclear = false
  /**
   * The current round of looks at all waiting refs: how many of them its looks have passed, which the next look skips, and when
   * the first of its looks began.
   */
  #round: Round = { passed: 0, begun: this.#lookedAt }

  constructor(options: ScannerOptions, index: TaskIndex, events: Emitter, wakeUp: () => void) {
    this.#options = options
    this.#timetable = new ScanTimetable(options.frequencyMs)
    this.#index = index
    this.#news = new ScanNews(options.spool, events)
    this.#wakeUp = wakeUp
    this.#directories = new Directories(options.spool)
    this.#watches = new Watches(options, events, {
      changed: (ref, renamed) => {
        if (this.#isClosed) return
        if (this.#index.changed(ref, renamed)) this.#wakeUp()
        else this.scanIfLow()
      },
      unclear: () => {
        this.#wasUnclear = true
        this.#wantScan(this.#timetable.unclearInMs(this.#index.size))
      },
    })
  }

  /**
   * Lets `looker` look, from now on, at refs that wait for their time and at ready refs that no worker looks at, so that this
   * process waits for no file.
   */
  lookBy(looker: Looker): void {
    this.#looker = looker
    this.#index.lookBy(looker, () => {
      if (this.#index.ready > 0 && this.#index.ready <= MOST_LISTED_AGAIN) this.#listAgain()
      this.#wakeWhenDue()
    })
  }

  /** Makes a scan list everything at once, because names may have come or gone of which no event tells. */
  #listAgain(): void {
    this.#directories.doubt()
    this.#wantScan(0)
  }

  /** Lists everything if events may not tell of each change, because somebody may have stored tasks. */
  lookForNew(): void {
    if (!this.#areEventsWhole) this.#listAgain()
  }

  /** Resolves after the first scan. */
  start(): Promise<void> {
    return this.#turn()
  }

  /** Looks at everything again, including files that are not due yet. */
  scanNow(): void {
    this.#wantScan(0, true)
  }

  /** Sets the frequency from now on, starting with a look at everything. */
  setFrequency(frequencyMs: number): void {
    this.#timetable.frequencyMs = frequencyMs
    this.#watches.frequencyMs = frequencyMs
    this.scanNow()
  }

  /** Takes note that workers ended tasks. They may soon run out of work, or be so fast that events cost more than they tell. */
  tasksEnded(count: number, isAnyGone: boolean): void {
    if (isAnyGone) this.#directories.doubt() // gone as far as a worker can see: the next pass lists
    this.#race.tasksEnded(count)
    this.#judge()
    if (this.#isSuspended && this.#index.ready === 0) {
      this.#isSuspended = false
      this.#wantScan(0)
    } else this.scanIfLow()
    // a scan that was put off as too expensive costs little once the tasks have run, or delays none while none is ready
    if (this.#timetable.isWanted && this.#index.ready === 0)
      this.#wantScan(this.#timetable.idleUnclearInMs(this.#index.size))
    this.#wakeWhenDue()
  }

  /** Scans if refs are due whose names are not known, and the known ones run low. */
  scanIfLow(): void {
    if (this.#index.runsLow) this.#wakeAt(0)
  }

  /** True if all due tasks are known, and none is left. */
  get isDrained(): boolean {
    const isSettled = this.#turning === undefined && !this.#timetable.isWanted
    const { runsLow, ready, busy, later } = this.#index
    const isNoneReady = !runsLow && ready === 0 && busy === 0
    return isSettled && !this.#isSuspended && isNoneReady && later.wakesAtMs > Date.now() // the alarm may be late
  }

  /** How long the scan in progress has met nothing, or a scan that is due has not begun; ms. */
  get stalledMs(): number {
    const isLate = !this.#isClosed && performance.now() > this.#nextTurnAt
    return this.#stall.look(this.#turning !== undefined || isLate ? this.#signs : undefined)
  }

  close(): void {
    this.#isClosed = true
    this.#alarm.clear()
    this.#index.close()
    this.#watches.close()
  }

  /** One turn: makes due refs ready, scans if necessary, and sets the alarm for the next turn. */
  async #turn(): Promise<void> {
    if (this.#turning !== undefined || this.#isClosed) return this.#turning
    this.#turning = this.#scanIfNeeded()
    await this.#turning
    this.#turning = undefined
    this.#signs++
    if (this.#isClosed) return
    this.#setAlarm()
    this.#wakeUp()
  }

  async #scanIfNeeded(): Promise<void> {
    this.#index.promote(Date.now())
    if (this.#index.later.horizonMs <= Date.now()) this.#timetable.want(performance.now(), false)
    if (this.#isSuspended) this.#judge()
    const startedAt = performance.now()
    const isPass = this.#timetable.isPassDue(startedAt, this.#isPolled)
    const isTold = this.#looker !== undefined && this.#areEventsWhole
    const waiting = Math.min(this.#index.waiting, MOST_LOOKED_AT)
    const mayLookAgain = waiting > 0 && !this.#isLooking
    const isMissed = this.#hasMissed && mayLookAgain && !this.#isSuspended && this.#index.knowsAll
    const isRegular =
      isPass && mayLookAgain && this.#timetable.isLookAgainDue(waiting, isTold ? LOOK_WATCHED_MS : 0)
    if (isMissed) this.#hasMissed = false
    if (isMissed || startedAt >= this.#nextTurnAt || this.#index.runsLow)
      await this.#scan(isMissed || isRegular)
    if (isPass) this.#timetable.passed(startedAt)
  }

  /** True if events tell of each change, as far as is known. */
  get #areEventsWhole(): boolean {
    const { watched, refused } = this.#watches.counts
    return this.#isWatching && !this.#isSuspended && watched > 0 && refused === 0 && !this.#wasUnclear
  }

  get #isPolled(): boolean {
    const { watch } = this.#options
    return watch === 'poll' || (watch === 'auto' && !this.#isLocal)
  }

  get #nextTurnAt(): number {
    return this.#timetable.nextAt({ isPolled: this.#isPolled, isSuspended: this.#isSuspended })
  }

  async #scan(isLookAgain: boolean): Promise<void> {
    const startedAt = performance.now()
    const isFirst = !this.#timetable.hasScanned
    const isForAll = this.#timetable.begin() || (isLookAgain && !this.#mayTellByTimes)
    const isWhole = isForAll || isLookAgain || this.#index.later.horizonMs <= Date.now()
    const mayTell = !isWhole && !this.#index.runsLow
    const changed = mayTell ? await this.#directories.changed(stampTaker(this.#isLocal)) : undefined
    const isAll = changed === undefined || (changed.size > 0 && !this.#index.knowsAll)
    if (isAll) await this.#list(undefined, isForAll, isLookAgain)
    else if (changed.size > 0) await this.#list(changed, false, false)
    this.#timetable.ended(startedAt, isAll, isForAll || isLookAgain, this.#index.size)
    if (isFirst && this.#index.ready > LONG_BACKLOG) this.#suspendWatches()
    else if (isAll || changed.size > 0) this.#followListed()
  }

  /**
   * True if the times of a waiting file tell whether somebody wrote, touched or replaced the file since the last look: they are
   * from this machine's clock, and nobody has set that clock.
   */
  get #mayTellByTimes(): boolean {
    const isClockSame = Math.abs(clockOffsetMs() - this.#lookedAt.offsetMs) < COARSEST_TIME_MS
    return this.#isLocal && isClockSame
  }

  /**
   * Lists directories.
   *
   * @param changed the directories that are listed again; undefined means all of them
   * @param isForAll true if waiting and parked refs become ready, so that workers look at their files again
   * @param isLookAgain true if the files of waiting refs are looked at again
   */
  async #list(
    changed: ReadonlySet<string> | undefined,
    isForAll: boolean,
    isLookAgain: boolean,
  ): Promise<void> {
    const { spool, rules } = this.#options
    this.#directories.beginScan(changed)
    const waiting: Ref[] = []
    let met = 0
    const collect = (ref: Ref) => {
      if (met++ >= this.#round.passed && waiting.length < MOST_LOOKED_AT) waiting.push(ref)
    }
    this.#index.beginScan(isForAll, changed === undefined, isLookAgain ? collect : undefined)
    const begun = { atMs: Date.now(), offsetMs: clockOffsetMs() }
    try {
      this.#isLocal = await isLocal(spool)
      await scanSpool(spool, rules, this.#visitor(), this.#isLocal, changed)
    } catch (error) {
      this.#index.endScan(this.#directories, false)
      return this.#miss(error)
    }
    this.#directories.endScan()
    this.#news.listed('')
    if (!this.#index.endScan(this.#directories)) return
    if (isForAll) this.#round = { passed: 0, begun }
    if (isForAll) this.#lookedAt = begun
    else if (isLookAgain) void this.#lookAgain(waiting, this.#round.passed + waiting.length < met, begun)
  }

  /**
   * Looks at files of waiting refs.
   *
   * @param isMore true if there are others, at which the next look looks
   * @param begun when the refs were listed
   */
  async #lookAgain(refs: readonly Ref[], isMore: boolean, begun: Round['begun']): Promise<void> {
    if (this.#round.passed === 0) this.#round.begun = begun
    this.#isLooking = true
    this.#wasUnclear = false
    const isDone = await this.#lookAt(refs, this.#lookedAt.atMs - COARSEST_TIME_MS)
    this.#isLooking = false
    if (!isDone) return // the next look begins where this one began
    this.#round.passed = isMore ? this.#round.passed + refs.length : 0
    if (!isMore) this.#lookedAt = this.#round.begun
  }

  /** @returns false if nobody could look */
  async #lookAt(refs: readonly Ref[], sinceMs: number): Promise<boolean> {
    const spool = toByteString(this.#options.spool)
    const look = this.#looker?.later ?? (async (some, since) => changedSince(spool, some, since))
    for (let from = 0; from < refs.length; from += LOOKED_AT_ONCE) {
      const some = refs.slice(from, from + LOOKED_AT_ONCE)
      const changed = await look(some, sinceMs)
      if (changed === undefined || this.#isClosed) return false
      const nowMs = Date.now()
      const due = changed.filter(([place, found]) => this.#index.laterLooked(some[place] ?? '', found, nowMs))
      if (due.length > 0) this.#wakeUp()
    }
    this.#wakeWhenDue()
    return true
  }

  #visitor(): ScanVisitor {
    const nowMs = Date.now()
    return {
      task: ref => {
        this.#signs++
        return this.#index.seen(ref, nowMs) && !this.#isClosed
      },
      enters: prefix => this.#directories.enters(prefix),
      directory: (prefix, stamp) => {
        this.#directories.begun(prefix, stamp)
        this.#signs++
        // a watch on the spool itself that is opened now saves a second listing; on a long backlog it would be closed at once,
        // and the kernel visits every entry both to open and to close a watch
        const isWorthIt = prefix === '' && stamp.bytes <= LONG_BACKLOG_BYTES && !this.#isSuspended
        if (isWorthIt && this.#isWatching) this.#watches.follow(prefix, stamp)
      },
      unvisited: prefix => this.#news.priority('spool-unvisited', prefix),
      foreign: prefix => this.#isLocal && this.#news.foreign(prefix),
      listed: (prefix, stamp, entries) => {
        this.#directories.listed(prefix, stamp, entries)
        this.#news.listed(prefix)
      },
      failed: (prefix, error) => {
        this.#directories.failed(prefix)
        this.#news.priority('spool-list-failed', prefix, error)
      },
    }
  }

  get stats(): LookStats {
    const hints = this.#options.watch === 'off' ? 'none' : this.#isPolled ? 'poll' : 'events'
    const [everyMs, isSuspended] = [this.#timetable.frequencyMs, this.#isSuspended]
    return { everyMs, hints, ...this.#watches.counts, isSuspended, ...this.#timetable.stats }
  }

  get #isWatching(): boolean {
    return !this.#isClosed && this.#isLocal && this.#options.watch === 'auto'
  }

  #followListed(): void {
    if (this.#isWatching) this.#watches.followOnly(this.#directories.listing, this.#isSuspended)
  }

  #wantScan(inMs: number, isForAll = false): void {
    this.#wakeAt(this.#timetable.want(performance.now() + inMs, isForAll))
  }

  /**
   * Suspends the watches while the backlog is long and tasks end fast, and opens them again afterwards. A long backlog at the
   * first scan counts as fast.
   */
  #judge(): void {
    const isRace = this.#race.judge(this.#index)
    if (isRace === true && !this.#isSuspended) this.#suspendWatches()
    if (isRace !== false || !this.#isSuspended) return
    this.#isSuspended = false // stamps tell whether something was made or removed in the meantime
    this.#followListed()
  }

  #suspendWatches(): void {
    this.#isSuspended = true
    this.#hasMissed = true
    this.#followListed()
    this.#race.restart()
    this.#wakeAt(this.#race.judgeableAt)
  }

  #miss(error: unknown): void {
    this.#directories.forget()
    this.#watches.close()
    this.#wantScan(Math.min(1000, this.#timetable.frequencyMs)) // a listing that fails costs nothing
    this.#news.missing(error)
  }

  #setAlarm(): void {
    this.#wakeAt(this.#nextTurnAt)
    this.#wakeWhenDue()
    if (this.#isSuspended) this.#wakeAt(this.#race.judgeableAt)
  }

  /** Sets the alarm for the next ref that comes due. Call it when refs may wait for another time than before. */
  #wakeWhenDue(): void {
    this.#wakeAt(performance.now() + Math.max(0, this.#index.later.wakesAtMs - Date.now()))
  }

  /**
   * Sets the alarm, unless the scanner is closed: what workers report late must not keep it alive.
   *
   * @param at on the clock of `performance.now()`
   */
  #wakeAt(at: number): void {
    if (!this.#isClosed) this.#alarm.wakeAt(at)
  }
}

/** Returns how far the wall clock is ahead of the clock that nobody sets; ms. */
function clockOffsetMs(): number {
  return Date.now() - performance.now()
}

/** Looks at files in this process, for programs that have no looker. */
function changedSince(spool: string, refs: readonly Ref[], sinceMs: number): Array<readonly [number, 'due']> {
  return refs.flatMap((ref, place) => {
    const times = timesSince(spool, ref, sinceMs)
    return times === undefined ? [] : [[place, 'due'] as const]
  })
}

/**
 * Returns the times of a task file that has changed since then (epoch ms). Its ctime tells, because touch, rsync and tar can set the mtime.
 *
 * @returns undefined if the file has not changed, or cannot be looked at
 */
export function timesSince(spool: string, ref: Ref, sinceMs: number): Pick<Stats, 'mtimeMs'> | undefined {
  // whoever can list the directory can look at its files, unless the disk fails
  const times = quietly(() => lstatSync(toFsPath(`${spool}/${ref}`)))
  return times !== undefined && times.ctimeMs >= sinceMs ? times : undefined
}

/** The maximum number of directories reported because they cannot be listed, or are not entered. */
const MOST_REPORTED = 1000
/** The maximum number of names that are looked at in a directory that is none of ours. */
const MOST_NAMES = 100

/** Reports what scans find, each thing once. */
class ScanNews {
  readonly #spool: string
  readonly #events: Emitter
  readonly #reported = new Set<string>()
  /** The code of the error with which the spool cannot be listed; undefined if it can be. */
  #missing: string | undefined

  constructor(spool: string, events: Emitter) {
    this.#spool = spool
    this.#events = events
  }

  /** Reports that the spool itself could not be listed. */
  missing(error: unknown): void {
    const code = errnoOf(error) ?? ''
    if (this.#missing === code) return
    this.#missing = code
    const isLink =
      code === 'ENOTDIR' &&
      quietly(() => lstatSync(toFsPath(toByteString(this.#spool))))?.isSymbolicLink() === true
    const advice = isLink ? '; it is a symbolic link now, which a reload follows' : ''
    this.#events.emit('spool-missing', { spool: this.#spool, error: messageOf(error) + advice })
  }

  /**
   * Takes note that a directory was listed, or is gone. The spool itself counts as listed once its names have filled the
   * window, too.
   */
  listed(prefix: string): void {
    if (prefix === '' && this.#missing !== undefined) {
      this.#missing = undefined
      this.#events.emit('spool-back', { spool: this.#spool })
    } else if (this.#reported.size > 0 && this.#reported.delete(`spool-list-failed${prefix}`))
      this.#events.emit('spool-list-back', { spool: this.#spool, prefix: displayName(prefix) })
  }

  priority(
    name: 'spool-unvisited' | 'spool-list-failed' | 'spool-astray',
    prefix: string,
    error?: unknown,
  ): void {
    if (!this.#isNews(name + prefix)) return
    this.#reported.add(name + prefix)
    this.#events.emit(name, { spool: this.#spool, prefix: displayName(prefix), error: messageOf(error) })
  }

  /** Reports a directory that may be anybody's if there are tasks among its first names. */
  foreign(prefix: string): void {
    if (!this.#isNews(`spool-astray${prefix}`)) return
    let looked = 0
    let holdsTask = false
    try {
      meetAtOnce(directoryOf(toByteString(this.#spool), prefix), name => {
        holdsTask = hasUwsgiPrefix(name)
        return !holdsTask && ++looked < MOST_NAMES
      })
    } catch {} // the directory is gone, or closed to us
    if (holdsTask) this.priority('spool-astray', prefix)
  }

  #isNews(what: string): boolean {
    return !this.#reported.has(what) && this.#reported.size <= MOST_REPORTED
  }
}
