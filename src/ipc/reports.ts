import { Histogram } from '../task/histogram.js'
import type { Ref } from '../task/ref.js'
import { REPORT_KINDS, type Report } from '../task/report.js'

/** Reports as flat numbers: at 50,000 tasks per second the JSON of objects would cost more than the tasks. */
export interface PackedReports {
  readonly type: 'reports'
  /** Ran to SPOOL_OK, which is all there is to say: number of the first, how many; again and again. */
  readonly done: readonly number[]
  /** number, kind (index in REPORT_KINDS), ran ms; again and again */
  readonly packed: readonly number[]
  /** The few that have more to say, by number. */
  readonly more?: { readonly [number: string]: MoreOfReport }
  /** Of all runs that ended in this message, where somebody listens to times. */
  readonly times?: RunTimes
  /** Numbers of tasks that run now and have not been told of before. */
  readonly started: readonly number[]
  /** How long the worker worked for all of this. */
  readonly busyMs: number
}

type MoreOfReport = Omit<Report, 'ref' | 'kind' | 'ranMs'>

const KIND_NUMBERS = new Map(REPORT_KINDS.map((kind, number) => [kind, number]))

/** What somebody listens to. */
export interface Listening {
  /** Single tasks: even those that ran to SPOOL_OK are reported one by one, with their times. */
  readonly tasks: boolean
  /** How long runs took, and how long their tasks had waited, as histograms. */
  readonly times: boolean
}

/** Histograms (task/histogram) of microseconds, packed: bucket, count; again and again. */
export interface RunTimes {
  readonly ran: readonly number[]
  readonly waited: readonly number[]
}

/** Collects reports until they are worth a message. */
export class Outbox {
  #listening: Listening
  #ran: Histogram | undefined
  #waited: Histogram | undefined
  #done: number[] = []
  #packed: number[] = []
  #more: Record<string, MoreOfReport> | undefined

  constructor(listening: Listening) {
    this.#listening = listening
  }

  listen(listening: Listening): void {
    this.#listening = listening
  }

  get listening(): Listening {
    return this.#listening
  }

  get isEmpty(): boolean {
    return this.#done.length === 0 && this.#packed.length === 0
  }

  add(number: number, report: Report): void {
    if (report.kind === 'ok' && !this.#listening.tasks) return this.#count(number)
    this.#packed.push(number, KIND_NUMBERS.get(report.kind) ?? 0, Math.round(report.ranMs))
    const { atMs, reason, detail, attempt, waitMs } = report
    if (atMs === undefined && reason === undefined && detail === undefined && attempt === undefined) return
    this.#more ??= {}
    this.#more[number] = { atMs, reason, detail, attempt, waitMs } // JSON leaves out what is undefined
  }

  /** Of a run whose report is added, too; nobody listens to times otherwise. */
  addTimes(ranMs: number, waitedMs: number): void {
    this.#ran ??= new Histogram()
    this.#waited ??= new Histogram()
    this.#ran.add(ranMs * 1000)
    this.#waited.add(waitedMs * 1000)
  }

  #count(number: number): void {
    const done = this.#done
    const last = done.length - 1
    if (last > 0 && (done[last - 1] ?? 0) + (done[last] ?? 0) === number) done[last] = (done[last] ?? 0) + 1
    else done.push(number, 1)
  }

  take(started: readonly number[], busyMs: number): PackedReports {
    const message: PackedReports = {
      type: 'reports',
      done: this.#done,
      packed: this.#packed,
      ...(this.#more === undefined ? {} : { more: this.#more }),
      ...(this.#ran === undefined || this.#waited === undefined
        ? {}
        : { times: { ran: this.#ran.pack(), waited: this.#waited.pack() } }),
      started,
      busyMs,
    }
    this.#ran = undefined
    this.#waited = undefined
    this.#done = []
    this.#packed = []
    this.#more = undefined
    return message
  }
}

/** The reverse: the number of every task that is told to be done. */
export function eachDone({ done }: PackedReports, tell: (number: number) => void): void {
  for (let i = 0; i < done.length; i += 2) {
    const first = done[i] ?? 0
    for (let left = done[i + 1] ?? 0, number = first; left > 0; left--, number++) tell(number)
  }
}

/** And every report of a message with its number. @param refOf undefined: nobody waits for that one */
export function eachReport(
  message: PackedReports,
  refOf: (number: number) => Ref | undefined,
  tell: (number: number, report: Report) => void,
): void {
  const { packed, more } = message
  for (let i = 0; i < packed.length; i += 3) {
    const number = packed[i] ?? 0
    const kind = REPORT_KINDS[packed[i + 1] ?? 0]
    const ref = refOf(number)
    if (kind === undefined || ref === undefined) continue
    const ranMs = packed[i + 2] ?? 0
    const rest = more?.[number]
    tell(number, rest === undefined ? { ref, kind, ranMs } : { ref, kind, ranMs, ...rest }) // one object per task
  }
}
