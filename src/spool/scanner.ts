import { Alarm } from '../base/clock.js'
import { messageOf } from '../base/errors.js'
import type { Emitter } from '../events/emitter.js'
import { displayName } from '../task/ref.js'
import { type ScanVisitor, scanSpool } from './scan.js'
import { type Stamp, Stamps } from './stamps.js'
import type { TaskIndex } from './task-index.js'
import { Watches, type WatchesOptions } from './watches.js'

export type ScannerOptions = WatchesOptions

/** A look at a waiting file that nobody announced costs about 6 µs; all of them may take half a percent of one core. */
const FORGETFUL_MS_A_FILE = 1.2
/** While the backlog is this long and tasks end this fast, events would cost more than they tell: three a task. */
const DEAF_BACKLOG = 5000
const DEAF_TASKS_A_SECOND = 2000
const RATE_WINDOW_MS = 100
/** A deaf scanner scans as often as takes a twentieth of one core. */
const DEAF_SCAN_SHARE = 20
const MISSING_RETRY_MS = 1000

/**
 * Keeps a TaskIndex true to its directory. The scan is the truth and comes every `frequencyMs`, unless stamps prove that
 * nothing was made or removed; events, or `scanNow`, only bring it (or a single name) forward.
 *
 * It is listening, or deaf (watches closed) while the workers race through a long backlog.
 */
export class Scanner {
  readonly #options: ScannerOptions
  readonly #index: TaskIndex
  readonly #events: Emitter
  readonly #wakeUp: () => void
  readonly #watches: Watches
  readonly #stamps: Stamps
  readonly #alarm = new Alarm(() => void this.#turn())
  readonly #told = new Set<string>()
  #turning: Promise<void> | undefined
  #isClosed = false
  #isDeaf = false
  #isMissing = false
  #isForgetful = false
  /** These on the clock of `performance.now()`. */
  #wantedAt = Number.NEGATIVE_INFINITY
  #lastScanAt = Number.NEGATIVE_INFINITY
  #lastPassAt = Number.NEGATIVE_INFINITY
  #lastForgetfulAt = performance.now()
  #lastScanMs = 0
  #rateSince = performance.now()
  #tasksSince = 0

  constructor(options: ScannerOptions, index: TaskIndex, events: Emitter, wakeUp: () => void) {
    this.#options = options
    this.#index = index
    this.#events = events
    this.#wakeUp = wakeUp
    this.#stamps = new Stamps(options.spool)
    this.#watches = new Watches(options, events, {
      changed: (ref, renamed) => {
        if (!this.#isClosed && this.#index.changed(ref, renamed)) this.#wakeUp()
      },
      unclear: () => this.#wantScan(Math.min(1000, this.#lastScanMs * 10)),
    })
  }

  /** Resolves after the first scan. */
  start(): Promise<void> {
    return this.#turn()
  }

  /** Looks at everything again, also at files whose time is not come. */
  scanNow(): void {
    this.#isForgetful = true
    this.#wantScan(0)
  }

  /** The workers ended tasks: they may soon run dry, or be so fast that events are not worth their price. */
  tasksEnded(count: number, isAnyGone: boolean): void {
    if (isAnyGone) this.#stamps.keep(new Map()) // as far as a worker can see: the next pass lists
    this.#tasksSince += count
    if (performance.now() - this.#rateSince >= RATE_WINDOW_MS) this.#judge()
    if (this.#isDeaf && this.#index.ready === 0) this.#wantScan(0)
    else if (this.#index.runsLow) this.#alarm.wakeAt(0)
    this.#wakeWhenDue()
  }

  /** Deaf while the backlog is long and tasks end fast; the start of a backlog counts as fast. */
  #judge(): void {
    const now = performance.now()
    const rate = (this.#tasksSince * 1000) / (now - this.#rateSince)
    this.#tasksSince = 0
    this.#rateSince = now
    const isRace = rate > DEAF_TASKS_A_SECOND && this.#index.ready > DEAF_BACKLOG
    if (isRace && !this.#isDeaf) this.#becomeDeaf()
    if (!isRace && this.#isDeaf) this.#wantScan(0)
  }

  /** Everything that is due is known, and none of it is left. */
  get isDrained(): boolean {
    const isSettled =
      this.#turning === undefined &&
      this.#wantedAt === Number.POSITIVE_INFINITY &&
      !this.#isDeaf &&
      !this.#index.runsLow
    return isSettled && this.#index.ready === 0 && this.#index.busy === 0
  }

  close(): void {
    this.#isClosed = true
    this.#alarm.clear()
    this.#watches.close()
  }

  /** One turn: what came due is ready, a scan where one is needed, the alarm for the next turn. */
  async #turn(): Promise<void> {
    if (this.#turning !== undefined || this.#isClosed) return this.#turning
    this.#turning = this.#scanIfNeeded()
    await this.#turning
    this.#turning = undefined
    if (this.#isClosed) return
    this.#setAlarm()
    this.#wakeUp()
  }

  async #scanIfNeeded(): Promise<void> {
    this.#index.promote(Date.now())
    if (this.#index.isPastHorizon(Date.now())) this.#isForgetful = true
    if (this.#isDeaf && performance.now() - this.#rateSince >= RATE_WINDOW_MS) this.#judge()
    const isPass = performance.now() >= this.#lastPassAt + this.#options.frequencyMs
    if (isPass) this.#forgetAtTimes()
    const isWanted =
      performance.now() >= this.#wantedAt || this.#isForgetful || this.#index.runsLow || this.#isDeafScanDue()
    if (isWanted || (isPass && !(await this.#stamps.isUnchanged()))) await this.#scan()
    if (isPass) this.#lastPassAt = performance.now()
  }

  /** A waiting file's time may have been changed without an event: look again, as often as is cheap. */
  #forgetAtTimes(): void {
    const dueAt = this.#lastForgetfulAt + this.#index.waiting * FORGETFUL_MS_A_FILE
    if (this.#index.waiting > 0 && performance.now() >= dueAt) this.#isForgetful = true
  }

  async #scan(): Promise<void> {
    const isForgetful = this.#isForgetful
    const isFirst = this.#lastScanAt === Number.NEGATIVE_INFINITY
    if (isForgetful) this.#lastForgetfulAt = performance.now()
    if (this.#isDeaf && performance.now() >= this.#wantedAt) this.#isDeaf = false
    this.#wantedAt = Number.POSITIVE_INFINITY
    this.#isForgetful = false
    this.#watches.scanBegins()
    const stamps = new Map<string, Stamp>([['', await this.#stamps.take('')]])
    await this.#follow('', stamps) // before the listing, so that nothing falls between the two
    const priorities = new Set<string>()
    this.#index.beginScan(isForgetful)
    try {
      const scan = await scanSpool(this.#options.spool, this.#options.rules, this.#visitor(priorities))
      this.#lastScanMs = scan.tookMs
      this.#found()
    } catch (error) {
      this.#miss(error)
    }
    this.#index.endScan()
    this.#lastScanAt = performance.now()
    if (isFirst && this.#index.ready > DEAF_BACKLOG) this.#becomeDeaf()
    await this.#followPriorities(priorities, stamps)
    this.#stamps.keep(stamps)
  }

  #visitor(priorities: Set<string>): ScanVisitor {
    const nowMs = Date.now()
    return {
      task: ref => this.#index.seen(ref, nowMs) && !this.#isClosed,
      directory: prefix => {
        if (prefix !== '') priorities.add(prefix)
      },
      unvisited: prefix => this.#tellOnce('spool-unvisited', prefix),
      failed: (prefix, error) => this.#tellOnce('spool-unlisted', prefix, error),
    }
  }

  async #follow(prefix: string, stamps: ReadonlyMap<string, Stamp>): Promise<boolean> {
    const inode = stamps.get(prefix)?.inode ?? 0
    if (this.#isDeaf || this.#isClosed || inode === 0) return false
    return this.#watches.follow(prefix, inode)
  }

  /** A priority that is seen for the first time was listed before it was watched: once more, then. */
  async #followPriorities(priorities: ReadonlySet<string>, stamps: Map<string, Stamp>): Promise<void> {
    for (const prefix of priorities) {
      stamps.set(prefix, await this.#stamps.take(prefix))
      if (await this.#follow(prefix, stamps)) this.#wantScan(0)
    }
    this.#watches.keepOnly(priorities)
  }

  #wantScan(inMs: number): void {
    this.#wantedAt = Math.min(this.#wantedAt, performance.now() + inMs)
    if (!this.#isClosed) this.#alarm.wakeAt(this.#wantedAt)
  }

  #becomeDeaf(): void {
    this.#isDeaf = true
    this.#watches.close()
    this.#tasksSince = 0
    this.#rateSince = performance.now()
    this.#alarm.wakeAt(this.#rateSince + RATE_WINDOW_MS)
  }

  #deafScanAt(): number {
    return this.#lastScanAt + Math.max(RATE_WINDOW_MS, this.#lastScanMs * DEAF_SCAN_SHARE)
  }

  #isDeafScanDue(): boolean {
    return this.#isDeaf && performance.now() >= this.#deafScanAt()
  }

  #miss(error: unknown): void {
    this.#watches.close()
    this.#wantScan(Math.min(MISSING_RETRY_MS, this.#options.frequencyMs))
    if (!this.#isMissing)
      this.#events.emit('spool-missing', { spool: this.#options.spool, error: messageOf(error) })
    this.#isMissing = true
  }

  #found(): void {
    if (this.#isMissing) this.#events.emit('spool-back', { spool: this.#options.spool })
    this.#isMissing = false
  }

  #tellOnce(name: 'spool-unvisited' | 'spool-unlisted', prefix: string, error?: unknown): void {
    if (this.#told.has(name + prefix) || this.#told.size > 1000) return
    this.#told.add(name + prefix)
    this.#events.emit(name, {
      spool: this.#options.spool,
      prefix: displayName(prefix),
      error: messageOf(error),
    })
  }

  #setAlarm(): void {
    this.#alarm.wakeAt(this.#lastPassAt + this.#options.frequencyMs)
    this.#wakeWhenDue()
    if (this.#isDeaf) this.#alarm.wakeAt(Math.min(this.#deafScanAt(), this.#rateSince + RATE_WINDOW_MS))
    this.#alarm.wakeAt(this.#wantedAt)
  }

  #wakeWhenDue(): void {
    this.#alarm.wakeAt(performance.now() + Math.max(0, this.#index.nextAtMs - Date.now()))
  }
}
