import { Histogram } from '../../base/task/histogram.js'
import type { Ref } from '../../base/task/ref.js'
import {
  type ClaimNotice,
  isTrouble,
  type NamedRuns,
  REPORT_KINDS,
  type Report,
  type ReportKind,
  waitsForSlot,
} from '../../base/task/report.js'
import type { NamedSlots, SlotWish, Terms } from '../../base/task/terms.js'

/** Reports as flat numbers: at 50,000 tasks per second, JSON of objects would cost more than running the tasks. */
export interface PackedReports {
  readonly type: 'reports'
  /** Runs that ended with SPOOL_OK and need no details: pairs of first number and count. */
  readonly done: readonly number[]
  /** Tasks that found no slot, by name: pairs of first number and count. There may be thousands in a row. */
  readonly waiting?: ReadonlyArray<{ readonly slots: NamedSlots; readonly numbers: readonly number[] }>
  /** Triples of number, kind (index in REPORT_KINDS) and run time in ms. */
  readonly packed: readonly number[]
  /** Further fields of the few reports that have any, by number. */
  readonly more?: { readonly [number: string]: MoreOfReport }
  /** The ids of named tasks that ran to SPOOL_OK, by number: nothing is left that knows them. */
  readonly ids?: { readonly [number: string]: string }
  /** Of all runs that ended in this message; absent: none has. */
  readonly times?: RunTimes
  /** Of named tasks, all runs that began or ended since the last message. */
  readonly named?: readonly NamedRuns[]
  /** Numbers of running tasks whose start was not announced before. */
  readonly started: readonly number[]
  /** How long the worker was busy with all of this. */
  readonly busyMs: number
  /** Of names whose tasks have ended: how many more could follow. */
  readonly wishes?: readonly SlotWish[]
  /** How many tasks wait in the worker until others of their name end there; absent: none. */
  readonly following?: number
}

type MoreOfReport = Omit<Report, 'ref' | 'kind' | 'ranMs'>

const KIND_NUMBERS = new Map(REPORT_KINDS.map((kind, number) => [kind, number]))

/** How long runs took, and how long their tasks had waited: histograms (task/histogram) in microseconds, packed. */
interface RunTimes {
  readonly ran: readonly number[]
  readonly waited: readonly number[]
}

/** Collects reports until they are worth a message. */
export class Outbox {
  readonly #isListenedTo: boolean
  /** Made once: a worker sends thousands of messages per second. */
  readonly #ran = new Histogram()
  readonly #waited = new Histogram()
  readonly named = new NamedRunCounts()
  #done: number[] = []
  readonly #waiting = new Map<string, { readonly slots: NamedSlots; readonly numbers: number[] }>()
  #packed: number[] = []
  #more: Record<string, MoreOfReport> | undefined
  #ids: Record<string, string> | undefined
  #hasTrouble = false

  /** @param isListenedTo even tasks that ended with SPOOL_OK are reported one by one, with their times */
  constructor(isListenedTo: boolean) {
    this.#isListenedTo = isListenedTo
  }

  get isEmpty(): boolean {
    return this.#done.length === 0 && this.#packed.length === 0 && this.#waiting.size === 0
  }

  /** It has the end of a task that did not go well, of which nobody would hear if this process ended now. */
  get hasTrouble(): boolean {
    return this.#hasTrouble
  }

  add(number: number, report: Report): void {
    this.#hasTrouble ||= isTrouble(report.kind)
    if (report.kind === 'ok' && !this.#isListenedTo && report.slots === undefined)
      return addTo(this.#done, number)
    if (waitsForSlot(report) && report.detail === undefined) return this.#wait(number, report.slots)
    this.#packed.push(number, KIND_NUMBERS.get(report.kind) ?? 0, Math.round(report.ranMs))
    const { name, task, atMs, reason, pair, slots, detail, attempt, waitMs } = report
    const isPlain =
      atMs === undefined && reason === undefined && detail === undefined && attempt === undefined
    if (isPlain && name === undefined && task === undefined && slots === undefined) return
    this.#more ??= {}
    this.#more[number] = { name, task, atMs, reason, pair, slots, detail, attempt, waitMs } // JSON leaves out undefined fields
  }

  /** Call it besides `add`. */
  addId(number: number, id: string): void {
    this.#ids ??= {}
    this.#ids[number] = id
  }

  /** Call it besides `add`. */
  addTimes(ranMs: number, waitedMs: number): void {
    this.#ran.add(ranMs * 1000)
    this.#waited.add(waitedMs * 1000)
  }

  #wait(number: number, slots: NamedSlots): void {
    const waiting = this.#waiting.get(slots.name) ?? { slots, numbers: [] } // a worker knows one count per name
    this.#waiting.set(slots.name, waiting)
    addTo(waiting.numbers, number)
  }

  take(started: readonly number[], busyMs: number): PackedReports {
    const named = this.named.take()
    const message: PackedReports = {
      type: 'reports',
      done: this.#done,
      packed: this.#packed,
      ...(this.#more === undefined ? {} : { more: this.#more }),
      ...(this.#ids === undefined ? {} : { ids: this.#ids }),
      ...(this.#waiting.size === 0 ? {} : { waiting: [...this.#waiting.values()] }),
      ...(this.#ran.count === 0 ? {} : { times: this.#takeTimes() }),
      ...(named === undefined ? {} : { named }),
      started,
      busyMs,
    }
    this.#done = []
    this.#packed = []
    this.#more = undefined
    this.#ids = undefined
    this.#waiting.clear()
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

  /** @returns undefined if there is nothing to tell */
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

/** Numbers as pairs of the first one and how many follow each other. */
function addTo(pairs: number[], number: number): void {
  const last = pairs.length - 1
  if (last > 0 && (pairs[last - 1] ?? 0) + (pairs[last] ?? 0) === number) pairs[last] = (pairs[last] ?? 0) + 1
  else pairs.push(number, 1)
}

/** The reverse: calls `tell` with each of them. */
export function eachOf(pairs: readonly number[], tell: (number: number) => void): void {
  for (let i = 0; i < pairs.length; i += 2) {
    const first = pairs[i] ?? 0
    for (let left = pairs[i + 1] ?? 0, number = first; left > 0; left--, number++) tell(number)
  }
}

/** @throws Error if a handler has made up a number, which is no task's; a range of them may have no end */
export function assertBelow({ done, packed, waiting = [] }: PackedReports, limit: number): void {
  const look = (first = 0, count = 0) => {
    if (!(first >= 0 && first + count <= limit))
      throw new Error(`expected the numbers of tasks that it was given, got ${count} from ${first} on`)
  }
  for (const pairs of [done, ...waiting.map(({ numbers }) => numbers)])
    for (let i = 0; i < pairs.length; i += 2) look(pairs[i], pairs[i + 1])
  for (let i = 0; i < packed.length; i += 3) look(packed[i], 1)
}

/** A task that a worker was given, and what it has announced of its claim. */
export interface GivenTask {
  readonly ref: Ref
  readonly notice: ClaimNotice | undefined
}

/** Calls `tell` with the number and report of each task that is not in `done`. @param given returns undefined for a task to skip */
export function eachReport(
  message: PackedReports,
  given: (number: number) => GivenTask | undefined,
  tell: (number: number, report: Report) => void,
): void {
  const { packed, more, waiting = [] } = message
  for (let i = 0; i < packed.length; i += 3) {
    const number = packed[i] ?? 0
    const kind = REPORT_KINDS[packed[i + 1] ?? 0]
    const task = given(number)
    if (kind === undefined || task === undefined) continue
    const { ref, notice } = task
    const ranMs = packed[i + 2] ?? 0
    const rest = more?.[number]
    const name = notice === undefined ? undefined : { name: notice.name }
    const isPlain = rest === undefined && name === undefined
    tell(number, isPlain ? { ref, kind, ranMs } : { ref, kind, ranMs, ...name, ...rest }) // one object per task
  }
  for (const { slots, numbers } of waiting)
    eachOf(numbers, number => {
      const task = given(number)
      if (task === undefined) return
      const name = task.notice === undefined ? undefined : { name: task.notice.name }
      tell(number, { ref: task.ref, ...name, kind: 'parked', ranMs: 0, reason: 'slot', slots })
    })
}
