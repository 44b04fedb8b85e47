import type { WorkerMessage } from '../ipc/messages.js'
import { type Listening, Outbox } from '../ipc/reports.js'
import { isHandled, type Report } from '../task/report.js'
import type { Run } from './run.js'

/** The master is told before a task begins when it has not heard of us for so long, and of what is in flight after so long; deadlines are that exact. */
export const REPORT_WITHIN_MS = 20

export interface ReportBufferOptions {
  /** Somebody listens to single tasks. */
  readonly isListenedTo: boolean
  /** Reports say which attempt it was and how long the task waited. */
  readonly isDetailed: boolean
  send(message: WorkerMessage): void
}

/** Collects what is to be told of tasks, and tells it when it is worth a message, or has waited long enough. */
export class ReportBuffer {
  readonly #send: (message: WorkerMessage) => void
  readonly #inFlight: ReadonlySet<Run>
  readonly #outbox: Outbox
  readonly #isDetailed: boolean
  /** The first end is told at once: should the process die, the next one need not wait (base/respawn-pace). */
  #hasReported = false
  #reportedAt = 0
  #busySince = 0
  #timer: NodeJS.Timeout | undefined

  /** @param inFlight of these, those that have started are told of with every message, once */
  constructor({ isListenedTo, isDetailed, send }: ReportBufferOptions, inFlight: ReadonlySet<Run>) {
    this.#outbox = new Outbox({ tasks: isListenedTo, times: false })
    this.#isDetailed = isDetailed
    this.#inFlight = inFlight
    this.#send = send
  }

  listen(listening: Listening): void {
    this.#outbox.listen(listening)
  }

  /** There was no run. */
  add(number: number, report: Report): void {
    this.#outbox.add(number, report)
  }

  /** What became of a run that has just ended. */
  ended({ number, claim }: Run, report: Report): void {
    const { times } = this.#outbox.listening
    if (!times && !this.#isDetailed) return this.#outbox.add(number, report)
    const waitMs = Math.max(0, Math.round(Date.now() - report.ranMs - claim.dueAtMs))
    this.#outbox.add(number, this.#isDetailed ? { ...report, attempt: claim.attempt, waitMs } : report)
    if (times && isHandled(report.kind)) this.#outbox.addTimes(report.ranMs, waitMs)
  }

  /** There is something to do again. */
  busy(): void {
    this.#busySince = performance.now()
  }

  /** A handler is about to be called, and may block for long. */
  starting(run: Run, now: number): void {
    if (now - this.#reportedAt > REPORT_WITHIN_MS) this.tell(run)
  }

  /** @param isQueueEmpty the master is to give more */
  turnEnded(isQueueEmpty: boolean): void {
    const isWanted = !this.#outbox.isEmpty && (isQueueEmpty || !this.#hasReported)
    if (this.#inFlight.size === 0 || isWanted) this.tell()
    else this.#tellLater()
  }

  /** Most promises settle soon: a message for each would cost more than its task. */
  #tellLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.tell()
    }, REPORT_WITHIN_MS)
  }

  /** Tells the master what ended, and what runs that it does not know of. @param starting it runs, too */
  tell(starting?: Run): void {
    if (starting !== undefined) starting.hasStarted = true
    const untold = starting === undefined || this.#inFlight.has(starting) ? [] : [starting]
    for (const run of this.#inFlight) if (run.hasStarted && !run.isTold && !run.hasEnded) untold.push(run)
    const hasEnded = !this.#outbox.isEmpty
    if (!hasEnded && untold.length === 0) return
    const now = performance.now()
    for (const run of untold) run.isTold = true
    const started = untold.map(({ number }) => number)
    this.#send(this.#outbox.take(started, now - this.#busySince))
    this.#reportedAt = now
    if (!hasEnded) return // the time is that of tasks that still run
    this.#busySince = now
    this.#hasReported = true
  }
}
