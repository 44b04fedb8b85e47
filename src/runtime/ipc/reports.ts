import { Histogram } from '../../base/task/histogram.js'
import type { Ref } from '../../base/task/ref.js'
import {
  type ClaimNotice,
  isTrouble,
  type NamedRuns,
  REPORT_KINDS,
  type Report,
  type ReportKind,
} from '../../base/task/report.js'
import type { SlotWish, Terms } from '../../base/task/terms.js'

/** Reports as flat numbers, because at 50,000 tasks per second JSON of objects would cost more than running the tasks. */
export interface PackedReports {
  readonly type: 'reports'
  /** Runs that ended with SPOOL_OK and need no details: pairs of first number and count. */
  readonly done: readonly number[]
  /** Four numbers per report: number, kind (index in REPORT_KINDS), run time in ms, and `atMs`, or NOT_SAID. */
  readonly packed: readonly number[]
  /** The further fields of reports, by number. Few reports have any. */
  readonly more?: { readonly [number: string]: MoreOfReport }
  /** The times of all runs whose end is in this message. Absent: no run has ended. */
  readonly times?: RunTimes
  /** All runs of named tasks that began or ended since the last message. */
  readonly named?: readonly NamedRuns[]
  /** Numbers of running tasks whose start was not announced before. */
  readonly started: readonly number[]
  /** How long the worker was busy since the last message. */
  readonly busyMs: number
  /** How many more tasks of a name could follow, for names whose tasks have ended here. */
  readonly wishes?: readonly SlotWish[]
  /** How many tasks wait in the worker until others of their name end there. Absent: none. */
  readonly following?: number
}

const NOT_SAID = -1
/** How many numbers in `packed` belong together. */
const WIDTH = 4

type MoreOfReport = Omit<Report, 'ref' | 'kind' | 'ranMs' | 'atMs'>

const KIND_NUMBERS = new Map(REPORT_KINDS.map((kind, number) => [kind, number]))

/** How long runs took, and how long their tasks had waited: packed histograms (task/histogram) in microseconds. */
interface RunTimes {
  readonly ran: readonly number[]
  readonly waited: readonly number[]
}

/** Collects reports until they are worth a message. */
export class Outbox {
  readonly #isListenedTo: boolean
  /** Made once, because a worker sends thousands of messages per second. */
  readonly #ran = new Histogram()
  readonly #waited = new Histogram()
  readonly named = new NamedRunCounts()
  #done: number[] = []
  #packed: number[] = []
  #more: Record<string, MoreOfReport> | undefined
  #hasTrouble = false

  /** @param isListenedTo true if even tasks that ended with SPOOL_OK are reported one by one, with their times */
  constructor(isListenedTo: boolean) {
    this.#isListenedTo = isListenedTo
  }

  get isEmpty(): boolean {
    return this.#done.length + this.#packed.length === 0
  }

  /** True while a failure of a task is not sent yet. If this process ended now, nobody would hear of that failure. */
  get hasTrouble(): boolean {
    return this.#hasTrouble
  }

  add(number: number, report: Report): void {
    this.#hasTrouble ||= isTrouble(report.kind)
    const { kind, ranMs, name, task, atMs, reason, pair, slots, id, detail, attempt, waitMs } = report
    if (kind === 'ok' && !this.#isListenedTo && slots === undefined && id === undefined)
      return addNumber(this.#done, number)
    this.#packed.push(number, KIND_NUMBERS.get(kind) ?? 0, Math.round(ranMs), atMs ?? NOT_SAID)
    const isPlain = reason === undefined && detail === undefined && attempt === undefined
    if (isPlain && name === undefined && task === undefined && slots === undefined && id === undefined) return
    this.#more ??= {}
    this.#more[number] = { name, task, reason, pair, slots, id, detail, attempt, waitMs } // JSON leaves out undefined fields
  }

  /** Adds the times of a run. Call it besides `add`. */
  addTimes(ranMs: number, waitedMs: number): void {
    this.#ran.add(ranMs * 1000)
    this.#waited.add(waitedMs * 1000)
  }

  take(started: readonly number[], busyMs: number): PackedReports {
    const named = this.named.take()
    const message: PackedReports = {
      type: 'reports',
      done: this.#done,
      packed: this.#packed,
      ...(this.#more === undefined ? {} : { more: this.#more }),
      ...(this.#ran.count === 0 ? {} : { times: this.#takeTimes() }),
      ...(named === undefined ? {} : { named }),
      started,
      busyMs,
    }
    this.#done = []
    this.#packed = []
    this.#more = undefined
    this.#hasTrouble = false
    return message
  }

  #takeTimes(): RunTimes {
    const [ran, waited] = [this.#ran.pack(), this.#waited.pack()]
    this.#ran.clear()
    this.#waited.clear()
    return { ran, waited }
  }
}

/** Counts runs by the name of their task. */
class NamedRunCounts {
  readonly #byName = new Map<string, NamedRuns>()

  started(terms: Terms): void {
    this.#of(terms).started++
  }

  ended(terms: Terms, kind: ReportKind, ranMs: number): void {
    const runs = this.#of(terms)
    runs.ranMs += ranMs
    if (kind === 'ok') runs.done++
    else if (kind === 'retry' || kind === 'error') runs.retried++
    else if (kind === 'buried') runs.buried++
    else runs.other++
  }

  /** Returns the counts since the last call; undefined if there are none. */
  take(): readonly NamedRuns[] | undefined {
    if (this.#byName.size === 0) return undefined
    const taken = [...this.#byName.values()]
    this.#byName.clear()
    return taken
  }

  #of({ name, slots }: Terms): NamedRuns {
    let runs = this.#byName.get(name)
    if (runs === undefined) {
      runs = {
        name,
        slots: slots?.count ?? null,
        started: 0,
        done: 0,
        retried: 0,
        buried: 0,
        other: 0,
        ranMs: 0,
      }
      this.#byName.set(name, runs)
    }
    return runs
  }
}

/** Adds a number to pairs of a first number and a count of consecutive ones. */
export function addNumber(pairs: number[], number: number): void {
  const last = pairs.length - 1
  if (last > 0 && (pairs[last - 1] ?? 0) + (pairs[last] ?? 0) === number) pairs[last] = (pairs[last] ?? 0) + 1
  else pairs.push(number, 1)
}

/** Calls `tell` with each number that the pairs of first number and count stand for. */
export function eachOf(pairs: readonly number[], tell: (number: number) => void): void {
  for (let i = 0; i < pairs.length; i += 2) {
    const first = pairs[i] ?? 0
    for (let left = pairs[i + 1] ?? 0, number = first; left > 0; left--, number++) tell(number)
  }
}

/**
 * Checks that the numbers in a message are below `limit`. Code of users may have made them up, and a range may be endless.
 *
 * @throws Error if a number is of no task
 */
export function assertBelow({ done, packed }: PackedReports, limit: number): void {
  const look = (first = 0, count = 0) => {
    if (!(first >= 0 && first + count <= limit))
      throw new Error(`expected the numbers of tasks that it was given, got ${count} from ${first} on`)
  }
  for (let i = 0; i < done.length; i += 2) look(done[i], done[i + 1])
  for (let i = 0; i < packed.length; i += WIDTH) look(packed[i], 1)
}

/** A task that a worker was given, and the notice of its claim, if the worker has sent one. */
export interface GivenTask {
  readonly ref: Ref
  readonly notice: ClaimNotice | undefined
}

/**
 * Calls `tell` with the number and report of each task that is not in `done`.
 *
 * @param given returns undefined for a task to skip
 */
export function eachReport(
  message: PackedReports,
  given: (number: number) => GivenTask | undefined,
  tell: (number: number, report: Report) => void,
): void {
  const { packed, more } = message
  for (let i = 0; i < packed.length; i += WIDTH) {
    const number = packed[i] ?? 0
    const kind = REPORT_KINDS[packed[i + 1] ?? 0]
    const task = given(number)
    if (kind === undefined || task === undefined) continue
    const { ref, notice } = task
    const ranMs = packed[i + 2] ?? 0
    const atMs = packed[i + 3] ?? NOT_SAID
    const rest = more?.[number]
    const name = notice === undefined ? undefined : { name: notice.name }
    const at = atMs === NOT_SAID ? undefined : { atMs }
    const isPlain = rest === undefined && name === undefined && at === undefined
    tell(number, isPlain ? { ref, kind, ranMs } : { ref, kind, ranMs, ...name, ...at, ...rest }) // one object per task
  }
}
