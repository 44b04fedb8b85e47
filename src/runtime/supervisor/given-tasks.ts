import type { Ref, TaskName } from '../../base/task/ref.js'
import type { ClaimNotice, ReportKind } from '../../base/task/report.js'
import { Marks } from '../ipc/marks.js'
import type { WorkerMessage } from '../ipc/messages.js'
import { addNumber, type GivenTask } from '../ipc/reports.js'

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
  /** The marks have told that the task is done or kept, and the feed knows it. The worker's report is still to come. */
  isOver = false
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

  /** The worker may have claimed the task, so that no other process can run it. */
  get isTaken(): boolean {
    return this.#all.marks.isTaken(this.number)
  }

  /** The latest time at which the run can have begun, if it has. */
  get beganAt(): number {
    return this.startedAt ?? this.#all.heardAt
  }
}

/** The refs that one worker was given and has not reported, by number, in the order in which they were given. */
export class GivenTasks {
  readonly #given = new Map<number, Given>()
  /** The number of those that are over. */
  #over = 0
  /** The tasks whose start was reported, oldest first. */
  readonly #started = new Set<Given>()
  readonly marks: Marks
  readonly #concurrency: number
  readonly #areLeased: boolean
  #next = 0
  /**
   * When the worker last sent a message, on the clock of `performance.now()`. A task that no message has mentioned began after
   * this time, or not at all.
   */
  heardAt = performance.now()
  /** The worker was asked to hand back what it has not begun, and has not answered yet. */
  isRecalling = false

  /** @param concurrency how many tasks the worker runs at a time @param areLeased the worker's claims are leases */
  constructor(marks: Marks, concurrency: number, areLeased = false) {
    this.marks = marks
    this.#concurrency = concurrency
    this.#areLeased = areLeased
  }

  /** The number of refs that the worker has. */
  get size(): number {
    return this.#given.size - this.#over
  }

  /** How many more refs the worker may be given, because each has a mark of its own. */
  get room(): number {
    return Marks.BYTES - this.#given.size
  }

  /** True if the worker has more refs than it can run now. */
  get hasAhead(): boolean {
    return this.size > Math.max(1, this.#started.size)
  }

  /** The number of tasks besides `numbers` that the worker runs. */
  besides(numbers: ReadonlySet<number>): number {
    return this.running.filter(({ number }) => !numbers.has(number)).length
  }

  /** @returns the numbers of the refs, as pairs of a first number and a count */
  give(refs: readonly Ref[]): number[] {
    if (this.size === 0) this.heard()
    const numbers: number[] = []
    const givenAtMs = Date.now()
    for (const ref of refs) {
      const number = this.marks.give(this.#next)
      this.#next = number + 1
      addNumber(numbers, number)
      this.#given.set(number, new Given(number, ref, givenAtMs, this))
    }
    return numbers
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

  named(name: TaskName): Given | undefined {
    for (const given of this.#given.values()) if (given.name === name && !given.isOver) return given
    return undefined
  }

  /** Each ref that the worker was given has a lower number than this. */
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
    given.startedAt = this.heardAt
    this.#started.add(given)
    given.isAnnounced = true
    return given.name
  }

  end(number: number): Given | undefined {
    const given = this.of(number)
    if (given === undefined) return undefined
    this.#started.delete(given)
    this.#given.delete(number)
    if (given.isOver) this.#over--
    this.marks.free(number)
    return given
  }

  /**
   * Takes back what the worker has not taken: it cannot begin that any more.
   *
   * @param keepsOne true leaves the first task to a worker that has taken none, which may only wait for a processor
   */
  withdraw(keepsOne: boolean): Ref[] {
    const refs: Ref[] = []
    let isFirst = keepsOne
    for (const [number, { ref, watcher }] of this.#given) {
      const isKept = isFirst
      isFirst = false
      if (isKept || !this.marks.withdraw(number)) continue
      this.#given.delete(number)
      refs.push(ref)
      watcher?.reported('untouched')
    }
    return refs
  }

  /** Tells of the tasks that are over, but which the worker has not come to report. */
  takeOver(): { readonly done: Ref[]; readonly kept: Ref[] } {
    const [done, kept]: [Ref[], Ref[]] = [[], []]
    if (this.#areLeased) return { done, kept } // such a ref stands for any task
    for (const given of this.#given.values()) {
      const isDone = this.marks.isDone(given.number)
      if (given.isOver || !(isDone || this.marks.isKept(given.number))) continue
      given.isOver = true
      this.#over++
      if (isDone) done.push(given.ref)
      else kept.push(given.ref)
    }
    return { done, kept }
  }

  /** The start time of the task that has been running longest. */
  get runningSince(): number | undefined {
    for (const { startedAt } of this.#started) return startedAt
    return undefined
  }

  /** As `runningSince`, without the tasks whose run has ended and whose outcome is being stored. */
  get stillRunsSince(): number | undefined {
    for (const { number, startedAt } of this.#started) if (!this.marks.isSettling(number)) return startedAt
    return undefined
  }

  /** True if the outcome of a run is being stored, and no handler runs. */
  get isSettling(): boolean {
    let isSettling = false
    for (const number of this.#given.keys()) {
      if (this.marks.isRunning(number)) return false
      if (this.marks.isSettling(number)) isSettling = true
      else if (!isSettling && !this.marks.isTaken(number)) return false
    }
    return isSettling
  }

  get refs(): Ref[] {
    return this.#all.flatMap(({ ref, isOver }) => (isOver ? [] : ref))
  }

  /** The tasks that are done, and not reported. */
  get done(): readonly Given[] {
    return this.#all.filter(({ number }) => this.marks.isDone(number))
  }

  /** The leases of the claims that the worker has announced and not reported. */
  get leases(): string[] {
    return this.#all.flatMap(({ lease }) => lease ?? [])
  }

  get #all(): Given[] {
    return [...this.#given.values()]
  }

  /** The tasks whose files the worker may have marked, of which it has reported none; where claims are leases, these claims. */
  get begun(): readonly Given[] {
    const begun = this.#all.filter(({ number }) => this.marks.isBegun(number))
    return this.#areLeased ? begun.filter(({ lease }) => lease !== undefined) : begun
  }

  /**
   * The tasks that run. An interpreter runs those that it was sent together in their order, and its worker has marked all of
   * them as begun.
   */
  get running(): readonly Given[] {
    return this.begun.filter((given, place) => place < this.#concurrency || this.#started.has(given))
  }
}
