import type { Ref, TaskName } from '../../base/task/ref.js'
import type { ClaimNotice, Found, ReportKind } from '../../base/task/report.js'
import type { WorkerMessage } from '../ipc/messages.js'
import type { GivenTask } from '../ipc/reports.js'

export type CancelAnswer = Extract<WorkerMessage, { type: 'cancelling' }>

/** Who waits for the end of one task of a worker. */
export interface TaskWatcher {
  /** The worker has read the request to cancel it. */
  answered(answer: CancelAnswer): void
  /** The worker has reported it, or turns out not to have begun it. */
  reported(kind: ReportKind, detail?: string): void
}

export interface Given extends GivenTask {
  /** Epoch ms. */
  readonly givenAtMs: number
  /** Undefined until the worker announces it, or for ever if the ref says it all. */
  notice: ClaimNotice | undefined
  /**
   * The latest time at which it can have begun, on the clock of `performance.now()`; undefined: no start was
   * reported.
   */
  startedAt: number | undefined
  /** The worker announced its start, and `task-started` was emitted. */
  isAnnounced: boolean
  /**
   * It was recalled and given to another worker. A report of this worker then still says what the run did, but not
   * where the ref is now.
   */
  isRecalled: boolean
  /** It counts as begun, because another worker, or a look aside, found it locked. */
  isInferred: boolean
  /** It has ended, as a look aside or another worker has found: its report is to come, and tells of an earlier run. */
  isGone: boolean
  /** The worker has said that its run has ended, and that storing that takes long. */
  isSettling: boolean
  watcher: TaskWatcher | undefined
}

/** A task as its feed knows it, and as people do. */
export interface NamedRef {
  readonly ref: Ref
  readonly name: TaskName
}

export interface Begun extends NamedRef {
  readonly lease: string | undefined
  /** The latest time at which it can have begun, on the clock of `performance.now()`. */
  readonly startedAt: number
}

/** A task that its worker still had when it ended. */
export interface Had extends Begun {
  readonly number: number
  /** Epoch ms. */
  readonly givenAtMs: number
  readonly isRecalled: boolean
}

/**
 * The refs that one worker was given and has not reported, by number, in the order in which they were given.
 *
 * Recalled refs are kept until the worker has confirmed the recall, because it may begin some of them before that.
 * It is given nothing meanwhile, so this never holds more than the worker had when it last sent a message.
 */
export class GivenTasks {
  readonly #given = new Map<number, Given>()
  /** How many of them are recalled. */
  #recalled = 0
  /** Those whose start was reported, oldest first. */
  readonly #started = new Set<Given>()
  readonly #concurrency: number
  readonly #areLeased: boolean
  #next = 0
  /** When the worker sent something last: what it had not spoken of had not begun before. On the clock of `performance.now()`. */
  heardAt = performance.now()
  /** The worker was asked to hand back what it has not started, and has not answered yet. */
  isRecalling = false
  /** The worker has said that it begins nothing more, and that all is reported. */
  isOver = false

  /** @param concurrency how many tasks the worker runs at a time @param areLeased its claims are leases */
  constructor(concurrency: number, areLeased = false) {
    this.#concurrency = concurrency
    this.#areLeased = areLeased
  }

  /** How many refs it owns or runs. */
  get size(): number {
    let size = this.#given.size - this.#recalled
    if (this.#recalled > 0) for (const { isRecalled } of this.#started) if (isRecalled) size++
    return size
  }

  /** True if it has more refs than it can run now. */
  get hasAhead(): boolean {
    return this.#given.size - this.#recalled > Math.max(1, this.#started.size)
  }

  /** How many other tasks than these it runs, as far as it has told, or others have seen. */
  besides(numbers: ReadonlySet<number>): number {
    const these = [...numbers].map(number => this.of(number))
    return this.#started.size - these.filter(each => each !== undefined && this.#started.has(each)).length
  }

  /** @returns the number of the first ref */
  give(refs: readonly Ref[]): number {
    if (this.size === 0) this.heard()
    const first = this.#next
    const givenAtMs = Date.now()
    for (const ref of refs)
      this.#given.set(this.#next++, {
        ref,
        notice: undefined,
        givenAtMs,
        startedAt: undefined,
        isAnnounced: false,
        isRecalled: false,
        isInferred: false,
        isGone: false,
        isSettling: false,
        watcher: undefined,
      })
    return first
  }

  heard(now = performance.now()): void {
    this.heardAt = now
  }

  /** What runs counts as begun so much later, but not later than now. */
  postpone(ms: number): void {
    const now = performance.now()
    this.heard(Math.min(now, this.heardAt + ms))
    for (const given of this.#started) given.startedAt = Math.min(now, (given.startedAt ?? now) + ms)
  }

  /** The task with this name by its number, if the worker has it: once, or again after a recall. */
  named(name: TaskName): Array<readonly [number: number, given: Given]> {
    return [...this.#given].filter(([, given]) => nameOf(given) === name)
  }

  /** How many it was ever given: their numbers are below that. */
  get count(): number {
    return this.#next
  }

  of(number: number): Given | undefined {
    return this.#given.get(number)
  }

  /** The worker has claimed these. @returns their refs */
  claimed(claims: ReadonlyArray<readonly [number: number, notice: ClaimNotice]>): Ref[] {
    return claims.flatMap(([number, notice]) => {
      const given = this.of(number)
      if (given === undefined) return []
      given.notice = notice
      return given.ref
    })
  }

  /** @returns its name, if the worker still has it */
  start(number: number): TaskName | undefined {
    const given = this.of(number)
    if (given === undefined) return undefined
    this.#begin(given)
    given.isAnnounced = true
    return nameOf(given)
  }

  #begin(given: Given): void {
    given.startedAt = this.heardAt
    this.#started.add(given)
  }

  end(number: number): Given | undefined {
    const given = this.of(number)
    if (given === undefined) return undefined
    this.#started.delete(given)
    this.#given.delete(number)
    if (given.isRecalled) this.#recalled--
    return given
  }

  #setRecalled(given: Given, isRecalled: boolean): void {
    if (given.isRecalled === isRecalled) return
    given.isRecalled = isRecalled
    this.#recalled += isRecalled ? 1 : -1
  }

  /**
   * Takes back the refs that have not been started, so that other workers can have them. If both workers try, the
   * claim decides.
   *
   * @param runsFirst in a sequential worker, whether the first ref counts as running even if its start was not
   *   announced; false while the worker handles a signal
   */
  recall(runsFirst: boolean): Ref[] {
    this.isRecalling = true
    const refs: Ref[] = []
    let mayRun = runsFirst
    for (const given of this.#owned) {
      if (given.startedAt === undefined && !mayRun) {
        this.#setRecalled(given, true)
        refs.push(given.ref)
      }
      mayRun = false
    }
    return refs
  }

  /**
   * Another worker has found a ref locked: if this one was to hand it back, and has not answered, it runs it.
   *
   * @returns false if it was not recalled from here
   */
  takeBack(ref: Ref): boolean {
    if (!this.isRecalling || this.#recalled === 0) return false
    for (const given of this.#given.values()) {
      if (given.ref !== ref || !given.isRecalled) continue
      this.#infer(given)
      return true
    }
    return false
  }

  /**
   * What it may have begun, or ended, as far as it has told: only their files tell. A start that it told may be over, too, where it had
   * more than that.
   */
  get unclear(): ReadonlyArray<readonly [number: number, given: Given]> {
    const all = this.#remaining
    return all.length === 1 && this.#started.size === 1 ? [] : all
  }

  get #remaining(): Array<readonly [number: number, given: Given]> {
    return [...this.#given].filter(([, { isGone }]) => !isGone)
  }

  /**
   * Somebody has looked at the files of what was `unclear`. It has begun those that are locked; what it was thought to run, and
   * does not, others may have, too.
   *
   * @returns the refs that are its own again, and those that are its own no longer; undefined: it has spoken meanwhile
   */
  looked(found: ReadonlyMap<number, Found>): { readonly begun: Ref[]; readonly freed: Ref[] } | undefined {
    if (!this.isRecalling) return undefined
    const [begun, freed]: [Ref[], Ref[]] = [[], []]
    const unclear = this.#remaining.filter(([number]) => found.has(number))
    const isOneBegun = unclear.some(([number]) => found.get(number) === 'locked')
    for (const [number, given] of unclear) {
      const what = found.get(number)
      if (what === 'gone') given.isGone = true
      if (given.startedAt !== undefined && (what === 'locked' || what === 'unreadable')) continue
      if (what === 'locked') {
        if (given.isRecalled) begun.push(given.ref)
        this.#infer(given)
      } else if (!given.isRecalled && (what === 'gone' || isOneBegun)) {
        this.#started.delete(given)
        this.#setRecalled(given, true)
        freed.push(given.ref)
      }
    }
    return { begun, freed }
  }

  /** It is not known to have begun it, but has it locked. */
  #infer(given: Given): void {
    this.#setRecalled(given, false)
    given.isInferred = given.startedAt === undefined
    if (given.isInferred) this.#begin(given)
  }

  /** Whether others may have what it has not reported. */
  get hasRecalled(): boolean {
    return this.#recalled > 0
  }

  /** Other workers have reported that these have ended. */
  endedElsewhere(refs: ReadonlySet<Ref>): void {
    for (const given of this.#given.values()) if (given.isRecalled && refs.has(given.ref)) given.isGone = true
  }

  /** What has ended, as somebody has seen, and was not reported. */
  get ended(): readonly Given[] {
    return [...this.#given.values()].filter(({ isGone }) => isGone)
  }

  /**
   * Handles the worker's answer to a recall: it has dropped the recalled refs except those that it had begun, which
   * it will report.
   *
   * @returns refs that it dropped and no other worker has: `recall` had left the first one as running, but it was not
   */
  confirmed(begun: readonly number[]): Ref[] {
    this.isRecalling = false
    const dropped: Ref[] = []
    for (const [number, given] of this.#given) {
      if (begun.includes(number) && given.startedAt === undefined) this.#begin(given)
      const { ref, startedAt, isInferred, isRecalled } = given
      if (startedAt !== undefined && (isRecalled || !isInferred || begun.includes(number))) continue
      this.end(number)
      given.watcher?.reported('untouched')
      if (!isRecalled) dropped.push(ref)
    }
    return dropped
  }

  /** The reported start time of the task that has been running longest, of those whose runs have not ended as far as is known. */
  get runningSince(): number | undefined {
    for (const { isSettling, startedAt } of this.#started) if (!isSettling) return startedAt
    return undefined
  }

  /** @see Given.isSettling */
  settles(number: number): void {
    const given = this.of(number)
    if (given === undefined) return
    given.isSettling = true
    if (given.startedAt === undefined) this.#begin(given)
  }

  get isSettling(): boolean {
    for (const { isSettling } of this.#started) if (isSettling) return true
    return false
  }

  /** The refs that no other worker has. */
  get left(): Ref[] {
    return this.#owned.map(({ ref }) => ref)
  }

  /** The leases of the claims that it has announced and not reported. */
  get leases(): string[] {
    return [...this.#given.values()].flatMap(({ notice }) => notice?.lease ?? [])
  }

  get #owned(): Given[] {
    return [...this.#given.values()].filter(({ isRecalled }) => !isRecalled)
  }

  /** The tasks that may have begun, and the latest time at which each can have. */
  get begun(): readonly Begun[] {
    return this.#mayHaveBegun.map(given => begunOf(given, this.heardAt))
  }

  /** All whose files it can have marked, and the claims that it can have begun. */
  get had(): readonly Had[] {
    if (this.isOver) return []
    const begun = new Set(this.#mayHaveBegun)
    return this.#remaining
      .filter(([, given]) => given.notice?.lease === undefined || begun.has(given))
      .map(([number, given]) => {
        const { givenAtMs, isRecalled } = given
        return { ...begunOf(given, this.heardAt), number, givenAtMs, isRecalled }
      })
  }

  /** A start that directly follows a report is not announced, but each lease is: without one, nothing can have begun where claims are leases. */
  get #mayHaveBegun(): Given[] {
    const inferred = this.#owned.filter(
      ({ startedAt }, place) => startedAt === undefined && (this.#areLeased || place < this.#concurrency),
    )
    const all = [...this.#started, ...inferred]
    return this.#areLeased ? all.filter(({ notice }) => notice?.lease !== undefined) : all
  }
}

export function begunOf(given: Given, heardAt: number): Begun {
  const { ref, notice, startedAt = heardAt } = given
  return { ref, name: nameOf(given), lease: notice?.lease, startedAt }
}

export function nameOf({ ref, notice }: GivenTask): TaskName {
  return notice?.name ?? ref
}
