import type { Ref, TaskName } from '../../base/task/ref.js'
import type { ClaimNotice, Found, ReportKind } from '../../base/task/report.js'
import type { WorkerMessage } from '../ipc/messages.js'
import type { GivenTask } from '../ipc/reports.js'

export type CancelAnswer = Extract<WorkerMessage, { type: 'cancelling' }>

/** Waits for the end of one task of a worker. */
export interface TaskWatcher {
  /** The worker has read the request to cancel it. */
  answered(answer: CancelAnswer): void
  /** The worker has reported the task, or turns out not to have begun it. */
  reported(kind: ReportKind, detail?: string): void
}

/** A task that a worker was given and has not reported. */
export class Given implements GivenTask {
  readonly number: number
  readonly ref: Ref
  /** Epoch ms. */
  readonly givenAtMs: number
  readonly #all: GivenTasks
  /** Undefined until the worker announces its claim, or for ever if the ref alone names the task. */
  notice: ClaimNotice | undefined
  /** The latest time at which the run can have begun, on the clock of `performance.now()`; undefined: no start was reported. */
  startedAt: number | undefined
  /** The worker announced the start, and `task-started` was emitted. */
  isAnnounced = false
  /**
   * The ref was recalled and may be with another worker. A report of this worker then still says what the run did, but not
   * where the ref is now.
   */
  isRecalled = false
  /** The task counts as begun, because another worker or a look aside found its file locked. */
  isInferred = false
  /** A look aside or another worker found that the task has ended. This worker's report is still to come. */
  isGone = false
  /** The worker has said that the run has ended and that storing its outcome takes long. */
  isSettling = false
  watcher: TaskWatcher | undefined

  constructor(number: number, ref: Ref, givenAtMs: number, all: GivenTasks) {
    this.number = number
    this.ref = ref
    this.givenAtMs = givenAtMs
    this.#all = all
  }

  /** The name that people see, as far as it is known. */
  get name(): TaskName {
    return this.notice?.name ?? this.ref
  }

  get lease(): string | undefined {
    return this.notice?.lease
  }

  /** The latest time at which the run can have begun, if it has. */
  get beganAt(): number {
    return this.startedAt ?? this.#all.heardAt
  }
}

/**
 * The refs that one worker was given and has not reported, by number, in the order in which they were given.
 *
 * Recalled refs stay here until the worker confirms the recall, because it may begin some of them before it reads the request.
 * The worker is given nothing meanwhile, so the number of refs stays bounded.
 */
export class GivenTasks {
  readonly #given = new Map<number, Given>()
  /** The number of refs in `#given` that are recalled. */
  #recalled = 0
  /** The tasks whose start was reported or inferred, oldest first. */
  readonly #started = new Set<Given>()
  readonly #concurrency: number
  readonly #areLeased: boolean
  #next = 0
  /**
   * When the worker last sent a message, on the clock of `performance.now()`. A task that no message has mentioned began after
   * this time, or not at all.
   */
  heardAt = performance.now()
  /** The worker was asked to hand back the tasks that it has not started, and has not answered yet. */
  isRecalling = false
  /** The worker has said that it begins nothing more and has reported everything. */
  isOver = false

  /** @param concurrency how many tasks the worker runs at a time @param areLeased the worker's claims are leases */
  constructor(concurrency: number, areLeased = false) {
    this.#concurrency = concurrency
    this.#areLeased = areLeased
  }

  /** The number of refs that the worker owns or runs. */
  get size(): number {
    let size = this.#given.size - this.#recalled
    if (this.#recalled > 0) for (const { isRecalled } of this.#started) if (isRecalled) size++
    return size
  }

  /** True if the worker has more refs than it can run now. */
  get hasAhead(): boolean {
    return this.#given.size - this.#recalled > Math.max(1, this.#started.size)
  }

  /** The number of tasks besides `numbers` that the worker is known to run. */
  besides(numbers: ReadonlySet<number>): number {
    const these = [...numbers].map(number => this.of(number))
    return this.#started.size - these.filter(each => each !== undefined && this.#started.has(each)).length
  }

  /** @returns the number of the first ref */
  give(refs: readonly Ref[]): number {
    if (this.size === 0) this.heard()
    const first = this.#next
    const givenAtMs = Date.now()
    for (const ref of refs) this.#given.set(this.#next, new Given(this.#next++, ref, givenAtMs, this))
    return first
  }

  heard(now = performance.now()): void {
    this.heardAt = now
  }

  /** Moves the start of each running task by `ms`, but not beyond now. */
  postpone(ms: number): void {
    const now = performance.now()
    this.heard(Math.min(now, this.heardAt + ms))
    for (const given of this.#started) given.startedAt = Math.min(now, (given.startedAt ?? now) + ms)
  }

  /** The entries of the task with this name. There are two if the worker was given the task again after a recall. */
  named(name: TaskName): Given[] {
    return [...this.#given.values()].filter(given => given.name === name)
  }

  /** The number of refs that the worker was ever given. Each ref has a lower number than this. */
  get count(): number {
    return this.#next
  }

  of(number: number): Given | undefined {
    return this.#given.get(number)
  }

  /** Notes what the worker says about its claims. @returns the refs of the claims */
  claimed(claims: ReadonlyArray<readonly [number: number, notice: ClaimNotice]>): Ref[] {
    return claims.flatMap(([number, notice]) => {
      const given = this.of(number)
      if (given === undefined) return []
      given.notice = notice
      return given.ref
    })
  }

  /** Notes an announced start. @returns the task's name; undefined if the worker no longer has the task */
  start(number: number): TaskName | undefined {
    const given = this.of(number)
    if (given === undefined) return undefined
    this.#begin(given)
    given.isAnnounced = true
    return given.name
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
   * Takes back the refs that have not started, so that other workers can have them. If two workers try the same task, the
   * claim decides.
   *
   * @param runsFirst whether the first ref counts as running even if its start was not announced, as in a sequential worker;
   *   false while the worker handles a signal
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
   * Another worker has found the ref's file locked. If this worker was asked to hand the ref back and has not answered, this
   * worker runs it.
   *
   * @returns false if the ref was not recalled from this worker
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
   * The tasks that the worker may have begun or ended without having said so: only their files tell. If the worker has several
   * tasks, a task whose start it reported may have ended, too.
   */
  get unclear(): readonly Given[] {
    const all = this.#remaining
    return all.length === 1 && this.#started.size === 1 ? [] : all
  }

  get #remaining(): Given[] {
    return [...this.#given.values()].filter(({ isGone }) => !isGone)
  }

  /**
   * Takes in a look at the files of the `unclear` tasks. The worker has begun those whose files are locked. A task that the
   * worker was thought to run, but does not, becomes free for other workers.
   *
   * @returns the refs that are the worker's own again, and those that no longer are; undefined if the worker has answered meanwhile
   */
  looked(found: ReadonlyMap<Given, Found>): { readonly begun: Ref[]; readonly freed: Ref[] } | undefined {
    if (!this.isRecalling) return undefined
    const [begun, freed]: [Ref[], Ref[]] = [[], []]
    const unclear = this.#remaining.filter(given => found.has(given))
    const isOneBegun = unclear.some(given => found.get(given) === 'locked')
    for (const given of unclear) {
      const what = found.get(given)
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

  /** The worker holds the lock of a task whose start it has not reported. */
  #infer(given: Given): void {
    this.#setRecalled(given, false)
    given.isInferred = given.startedAt === undefined
    if (given.isInferred) this.#begin(given)
  }

  /** True if other workers may have refs that this worker has not reported. */
  get hasRecalled(): boolean {
    return this.#recalled > 0
  }

  /** Other workers have reported that these tasks have ended. */
  endedElsewhere(refs: ReadonlySet<Ref>): void {
    for (const given of this.#given.values()) if (given.isRecalled && refs.has(given.ref)) given.isGone = true
  }

  /** The tasks that were seen to have ended and that this worker has not reported. */
  get ended(): readonly Given[] {
    return [...this.#given.values()].filter(({ isGone }) => isGone)
  }

  /**
   * Handles the worker's answer to a recall. The worker has dropped the recalled refs except those in `begun`, which it will
   * report.
   *
   * @param isFree returns true if no other worker has the ref
   * @returns `kept`: the recalled refs that the worker has begun and no other worker has. `dropped`: the dropped refs that no other
   *   worker has, because `recall` took the first ref for running, and it was not
   */
  confirmed(
    begun: readonly number[],
    isFree: (ref: Ref) => boolean,
  ): { readonly kept: Ref[]; readonly dropped: Ref[] } {
    this.isRecalling = false
    const [kept, dropped]: [Ref[], Ref[]] = [[], []]
    for (const [number, given] of this.#given) {
      const hasBegun = begun.includes(number)
      if (hasBegun && given.startedAt === undefined) this.#begin(given)
      if (hasBegun && given.isRecalled && !given.isGone && isFree(given.ref)) {
        this.#setRecalled(given, false)
        kept.push(given.ref)
      }
      const { ref, startedAt, isInferred, isRecalled } = given
      if (startedAt !== undefined && (isRecalled || !isInferred || hasBegun)) continue
      this.end(number)
      given.watcher?.reported('untouched')
      if (!isRecalled) dropped.push(ref)
    }
    return { kept, dropped }
  }

  /** The start time of the task that has been running longest. */
  get runningSince(): number | undefined {
    for (const { startedAt } of this.#started) return startedAt
    return undefined
  }

  /** As `runningSince`, without the tasks whose run has ended and whose outcome is being stored. */
  get stillRunsSince(): number | undefined {
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

  /** The leases of the claims that the worker has announced and not reported. */
  get leases(): string[] {
    return [...this.#given.values()].flatMap(({ lease }) => lease ?? [])
  }

  get #owned(): Given[] {
    return [...this.#given.values()].filter(({ isRecalled }) => !isRecalled)
  }

  /** The tasks whose files the worker may have marked; where claims are leases, the claims that it may have begun. */
  get had(): readonly Given[] {
    if (this.isOver) return []
    const begun = new Set(this.begun)
    return this.#remaining.filter(given => given.lease === undefined || begun.has(given))
  }

  /**
   * The tasks that may have begun. A start that directly follows a report is not announced, so the first refs may have begun.
   * Leases are always announced, so where claims are leases, a task without a lease cannot have begun.
   */
  get begun(): readonly Given[] {
    const inferred = this.#owned.filter(
      ({ startedAt }, place) => startedAt === undefined && (this.#areLeased || place < this.#concurrency),
    )
    const all = [...this.#started, ...inferred]
    return this.#areLeased ? all.filter(({ lease }) => lease !== undefined) : all
  }
}
