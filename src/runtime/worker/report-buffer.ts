import { epochNowMs, setTimeout } from '../../base/own-clock.js'
import type { ArraySet } from '../../base/queue.js'
import { isHandled, type Report } from '../../base/task/report.js'
import type { Claim, WorkerClaims } from '../../engines/claims.js'
import { ID_KEY } from '../../formats/protocol/named.js'
import { lastValue } from '../../formats/protocol/vars.js'
import type { WorkerMessage, WorkerOptions } from '../ipc/messages.js'
import { Outbox } from '../ipc/reports.js'
import type { Followers } from './followers.js'
import type { Run } from './run.js'

/**
 * If the last report is older than this, in ms, the master gets a report before a task begins. It also gets a report of running
 * tasks after this time. Deadlines are accurate to this time.
 */
export const REPORT_WITHIN_MS = 20

/** A longer id is not reported. The length is limited because anybody may have written the packet. */
const LONGEST_ID = 200

export interface ReportBufferOptions extends Pick<WorkerOptions, 'isListenedTo' | 'isDetailed'> {
  send(message: WorkerMessage): void
}

/** Collects reports of tasks, and sends them when they are worth a message or have waited long enough. */
export class ReportBuffer {
  readonly #send: (message: WorkerMessage) => void
  readonly #inFlight: ArraySet<Run>
  readonly #followers: Followers
  readonly #claims: WorkerClaims
  readonly #outbox: Outbox
  readonly #isDetailed: boolean
  /**
   * True once reports of tasks have been sent. The first one is sent at once, so that the replacement of this process need not
   * be delayed if it dies after that (base/respawn-pace).
   */
  #hasReported = false
  #reportedAt = 0
  #busySince = 0
  #timer: NodeJS.Timeout | undefined

  /** @param inFlight the runs under way: each message also announces those that have started since the last one */
  constructor(
    { isListenedTo, isDetailed, send }: ReportBufferOptions,
    inFlight: ArraySet<Run>,
    followers: Followers,
    claims: WorkerClaims,
  ) {
    this.#outbox = new Outbox(isListenedTo)
    this.#isDetailed = isDetailed
    this.#inFlight = inFlight
    this.#followers = followers
    this.#claims = claims
    this.#send = send
  }

  /** Adds a report of a task that did not run. */
  add(number: number, report: Report): void {
    this.#outbox.add(number, report)
  }

  /** Adds the report of a run that has just ended. */
  ended({ number, claim }: Run, plain: Report): void {
    const { terms } = claim
    if (terms !== undefined) {
      this.#outbox.named.ended(terms, plain.kind, plain.ranMs)
    }
    const report = terms === undefined ? plain : { ...plain, task: terms.name, id: idOf(claim, plain) }
    const waitMs = Math.max(0, Math.round(epochNowMs() - report.ranMs - claim.dueAtMs))
    this.#outbox.add(number, this.#isDetailed ? { ...report, attempt: claim.attempt, waitMs } : report)
    if (isHandled(report.kind)) this.#outbox.addTimes(report.ranMs, waitMs)
  }

  /** Call it when the worker is no longer idle. */
  busy(): void {
    this.#busySince = performance.now()
  }

  /** Call it right before a handler, which may block for long, or end this process before everything is reported. */
  starting(run: Run, now: number): void {
    const { terms } = run.claim
    if (terms !== undefined) this.#outbox.named.started(terms)
    if (this.#outbox.hasTrouble || now - this.#reportedAt > REPORT_WITHIN_MS) this.tell(run)
  }

  /**
   * Reports at the end of a turn, at once or later.
   *
   * @param isQueueEmpty true if the master should send more tasks
   * @param isIdle true if no task is claimed or runs
   */
  turnEnded(isQueueEmpty: boolean, isIdle: boolean): void {
    const isWanted = !this.#outbox.isEmpty && (isQueueEmpty || !this.#hasReported)
    if (isIdle || isWanted) this.tell()
    else this.#tellLater()
  }

  /** Reports after a while, because most promises settle soon, and a message for each would cost more than its task. */
  #tellLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.tell()
    }, REPORT_WITHIN_MS)
  }

  /**
   * Sends the master all reports, and announces running tasks that it does not know of.
   *
   * @param starting a run that starts now
   */
  tell(starting?: Run): void {
    if (starting !== undefined) starting.hasStarted = true
    const unannounced = starting === undefined || this.#inFlight.has(starting) ? [] : [starting]
    for (const run of this.#inFlight)
      if (run.hasStarted && !run.isAnnounced && !run.hasEnded) unannounced.push(run)
    const hasEnded = !this.#outbox.isEmpty
    if (!hasEnded && unannounced.length === 0) return
    this.#claims.rest(false)
    const now = performance.now()
    for (const run of unannounced) run.isAnnounced = true
    const started = unannounced.map(({ number }) => number)
    this.#send({ ...this.#outbox.take(started, now - this.#busySince), ...this.#followers.takeNews() })
    this.#reportedAt = now
    if (!hasEnded) return // the busy time belongs to tasks that are still running
    this.#busySince = now
    this.#hasReported = true
  }
}

/** Returns the id of a named task that ran to SPOOL_OK, if it has one. */
function idOf({ vars }: Claim, { kind }: Report): string | undefined {
  const id = kind === 'ok' ? lastValue(vars, ID_KEY) : undefined
  return id !== undefined && id.length <= LONGEST_ID ? id : undefined
}
