import type { Ref, TaskName } from '../../base/task/ref.js'
import { isHandled, type Report } from '../../base/task/report.js'
import type { Marks } from '../ipc/marks.js'
import type { WorkerMessage } from '../ipc/messages.js'
import { assertBelow, eachOf, eachReport, type PackedReports } from '../ipc/reports.js'
import { GivenTasks } from './given-tasks.js'
import type { Reported } from './worker-port.js'

/**
 * For how long a worker that is not known to run anything is assumed to sort out tasks that are not due. Such a worker reports
 * several times per second, unless the machine is starved. A worker that runs something nearly always says so earlier.
 */
const SORTING_MS = 2000
/** After a longer rest, a worker says at once that it runs something (runtime/worker/report-buffer.ts). */
const REST_MS = 20

/** The tasks and signals that one worker was given and has not reported, and how long they take. */
export class Workload {
  /** How many tasks the worker runs at a time. */
  readonly concurrency: number
  readonly tasks: GivenTasks
  readonly signals = new GivenSignals()
  readonly activity = new Activity()
  readonly pace = new Pace()
  /** The number of its tasks that wait for the end of others of their name in this worker, as it last said. */
  following = 0
  /** The worker has begun or reported a task. */
  hasWorked = false

  constructor(marks: Marks, concurrency: number, areLeased: boolean) {
    this.concurrency = concurrency
    this.tasks = new GivenTasks(marks, concurrency, areLeased)
  }

  /** The number of tasks and signals that the worker answers for. */
  get outstanding(): number {
    return this.tasks.size + this.signals.size
  }

  /** The number of tasks and signal handlers that may run beside these tasks, one of which has begun. */
  besides(numbers: ReadonlySet<number>): number {
    const tasks = this.concurrency === 1 ? 0 : this.tasks.besides(numbers)
    return tasks + this.signals.running.length
  }

  /** True if the worker has more than it can run now, and was not yet asked to hand that back. */
  get hasAhead(): boolean {
    if (this.tasks.isRecalling) return false
    return this.tasks.hasAhead || (this.signals.size > 0 && this.outstanding > 1)
  }

  /** The latest time at which the longest-running task can have begun; undefined when nothing runs. */
  get runningSince(): number | undefined {
    const since = earliest(this.signals.runningSince, this.tasks.runningSince)
    return since ?? (this.outstanding > 0 ? this.tasks.heardAt : undefined)
  }

  /** As `runningSince`, for deadlines: none applies to a run that has ended while its outcome is stored. */
  get stillRunsSince(): number | undefined {
    const since = earliest(this.signals.runningSince, this.tasks.stillRunsSince)
    return since ?? (this.outstanding > 0 && !this.tasks.isSettling ? this.tasks.heardAt : undefined)
  }

  /** The names of the tasks that run. */
  get running(): readonly TaskName[] {
    return this.tasks.running.map(({ name }) => name)
  }

  nameOf(number: number | null): TaskName | null {
    return number === null ? null : (this.tasks.of(number)?.name ?? null)
  }

  postpone(ms: number): void {
    this.tasks.postpone(ms)
    this.signals.postpone(ms)
  }

  giveSignal(number: number): void {
    if (this.outstanding === 0) this.tasks.heard()
    this.signals.give(number)
    this.noteActivity()
    this.activity.started() // unlike a ref, a signal is certainly due
  }

  /** @see GivenTasks.give */
  giveTasks(refs: readonly Ref[]): number[] {
    const numbers = this.tasks.give(refs)
    this.noteActivity()
    return numbers
  }

  /** Call it when `outstanding` may have changed. */
  noteActivity(): void {
    this.activity.note(this.outstanding)
  }

  /** @returns the task's name; undefined if the worker no longer has the task */
  started(number: number): TaskName | undefined {
    this.activity.started()
    this.hasWorked = true
    return this.tasks.start(number)
  }

  settle(message: Extract<WorkerMessage, { type: 'reports' }>): Reported & { readonly count: number } {
    const reported = takeReports(message, this.tasks)
    const { doneNames, reports, late } = reported
    this.following = message.following ?? 0
    const count = doneNames.length + reports.length + late.length
    const ran = doneNames.length + ranOf(reports) + ranOf(late)
    this.activity.reported(count, ran)
    if (count > 0) this.hasWorked = true
    this.noteActivity()
    this.pace.note(message.busyMs, ran, countOf('parked', reports), countOf('later', reports))
    return { ...reported, count }
  }
}

function earliest(...times: ReadonlyArray<number | undefined>): number | undefined {
  const known = times.filter(time => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/** The signals of one worker: those that it has handlers for, and those that it was given and has not finished. */
class GivenSignals {
  /** The signal numbers that the worker has a handler for. */
  readonly handled = new Set<number>()
  /** The start time of each signal, on the clock of `performance.now()`; undefined while it waits. */
  readonly #given = new Map<number, number | undefined>()

  get size(): number {
    return this.#given.size
  }

  has(number: number): boolean {
    return this.#given.has(number)
  }

  give(number: number): void {
    this.#given.set(number, undefined)
  }

  /** Ignores a signal that the worker was not given: a handler has made it up, and nothing would ever end it. */
  start(number: number): void {
    if (this.#given.has(number)) this.#given.set(number, performance.now())
  }

  postpone(ms: number): void {
    for (const [number, startedAt] of this.#given)
      if (startedAt !== undefined) this.#given.set(number, Math.min(performance.now(), startedAt + ms))
  }

  /** Call it when the signal was handled or handed back. */
  remove(number: number): void {
    this.#given.delete(number)
  }

  get waiting(): readonly number[] {
    return [...this.#given].filter(([, startedAt]) => startedAt === undefined).map(([number]) => number)
  }

  get running(): readonly number[] {
    return [...this.#given].filter(([, startedAt]) => startedAt !== undefined).map(([number]) => number)
  }

  /** The start time of the signal that has been running longest. */
  get runningSince(): number | undefined {
    const began = [...this.#given.values()].filter(startedAt => startedAt !== undefined)
    return began.length === 0 ? undefined : Math.min(...began)
  }
}

/** When a worker had something to do. Times are of `performance.now()`. */
export class Activity {
  #busyMs = 0
  #busySince: number | undefined
  #idleSince = performance.now()
  /** Since when nothing has shown that the worker's tasks are due; undefined: it runs something. */
  #unprovenSince: number | undefined = this.#idleSince
  /** True if no task that the worker last reported was due: it may be given more such tasks in a moment. */
  #hasSorted = false

  /** How long the worker has had something to do, until now. Never decreases. */
  get busyMs(): number {
    return (
      this.#busyMs +
      (this.#busySince === undefined || this.isSorting ? 0 : performance.now() - this.#busySince)
    )
  }

  /** Since when the worker has had nothing to do; for a busy worker, when it last began to have nothing to do. */
  get idleSince(): number {
    return this.#idleSince
  }

  /**
   * True if the worker may only be looking through tasks of which none is due: workers alone can see when a task is due. Also true
   * between two batches of such tasks.
   */
  get isSorting(): boolean {
    if (this.#unprovenSince === undefined || (this.#busySince === undefined && !this.#hasSorted)) return false
    return performance.now() - this.#unprovenSince < SORTING_MS
  }

  /** The worker runs something. */
  started(): void {
    this.#unprovenSince = undefined
    this.#hasSorted = false
  }

  /** The worker has reported `count` tasks, of which `ran` have run. */
  reported(count: number, ran: number): void {
    if (ran > 0) return this.started()
    if (count === 0) return
    this.#count()
    this.#unprovenSince = performance.now()
    this.#hasSorted = true
  }

  /** Call it when `outstanding` may have changed. @param outstanding the number of tasks and signals that the worker has */
  note(outstanding: number): void {
    if (outstanding > 0 === (this.#busySince !== undefined)) return
    const now = performance.now()
    if (this.#busySince === undefined) {
      this.#busySince = now
      if (this.#unprovenSince !== undefined || now - this.#idleSince > REST_MS) this.#unprovenSince = now
      return
    }
    this.#count()
    this.#busySince = undefined
    this.#idleSince = now
  }

  /** Adds the time until now to the busy time, unless the worker only sorted. */
  #count(): void {
    const { busyMs } = this
    this.#busyMs = busyMs
    if (this.#busySince !== undefined) this.#busySince = performance.now()
  }
}

/** How long tasks have taken: recently, and in total. */
export class Pace {
  #ms: number | undefined
  /** While the worker only finds tasks that are for later: how long it takes to find that out, per task. */
  #laterMs: number | undefined
  #ran = 0

  /** The number of runs. */
  get ran(): number {
    return this.#ran
  }

  /** The recent time per task; undefined until a task has run or was found to be for later. */
  get ms(): number | undefined {
    return this.#laterMs ?? this.#ms
  }

  /**
   * @param busyMs how long all tasks of the report took together
   * @param ran how many tasks ran; those that were refused say nothing about the pace
   * @param parked how many tasks were opened and parked: many may follow one another, and large batches are right for them
   * @param later how many tasks were found to be for later: many may follow one another, but tasks that run may be slow
   */
  note(busyMs: number, ran: number, parked = 0, later = 0): void {
    this.#ran += ran
    const told = ran + parked
    if (told + later === 0) return
    this.#laterMs = told === 0 ? busyMs / later : undefined
    if (told === 0) return
    const ms = busyMs / told
    this.#ms = this.#ms === undefined ? ms : (this.#ms + ms) / 2
  }
}

/** The number of reports of tasks that ran. */
function ranOf(reports: readonly Pick<Report, 'kind'>[]): number {
  let ran = 0
  for (const { kind } of reports) if (isHandled(kind) || kind === 'ignore') ran++
  return ran
}

function countOf(kind: Report['kind'], reports: readonly Pick<Report, 'kind'>[]): number {
  let count = 0
  for (const report of reports) if (report.kind === kind) count++
  return count
}

/**
 * Unpacks a worker's reports, and removes the reported tasks from the list of what the worker was given.
 *
 * @throws Error before anything is removed, if the worker reports what it was never given
 */
function takeReports(message: PackedReports, given: GivenTasks): Reported {
  assertBelow(message, given.count)
  const known = new Set<TaskName>()
  const done: Ref[] = []
  const doneNames: TaskName[] = []
  const reports: Report[] = []
  const late: Report[] = []
  eachOf(message.done, number => {
    const ended = given.end(number)
    if (ended === undefined) return
    ended.watcher?.reported('ok')
    const { ref, name, isAnnounced, isOver } = ended
    if (isAnnounced) known.add(name)
    if (!isOver) done.push(ref)
    doneNames.push(name)
  })
  const givenOf = (number: number) => given.of(number)
  eachReport(message, givenOf, (number, report) => {
    const ended = given.end(number)
    ended?.watcher?.reported(report.kind, report.detail)
    if (ended === undefined) return
    if (ended.isAnnounced) known.add(ended.name)
    const list = ended.isOver ? late : reports
    list.push(report)
  })
  return { done, doneNames, reports, late, known, wishes: message.wishes ?? [] }
}
