import { Queue } from '../base/queue.js'
import type { ClaimsAtOnce } from '../engines/claims.js'
import { type LastRuns, Outbox, type WorkerMessage } from '../ipc/messages.js'
import { type Outcome, UNBEGUN } from '../task/outcome.js'
import type { Ref } from '../task/ref.js'
import { isHandled, isLimit } from '../task/report.js'
import { ClaimAhead, type Claimed } from './claim-ahead.js'
import type { Host } from './hosts/host.js'
import { SignalRunner } from './signal-runner.js'
import {
  assignmentsOf,
  REPORT_WITHIN_MS,
  type RunnerOptions,
  type TaskRunner,
  withClaim,
} from './task-runner.js'

// Longer than others: every step of a batch changes what the next one may do, and one file has them all.

/** One message runs while the next is made. */
const MESSAGES_AHEAD = 2

/**
 * Runs tasks in one host, which takes them many at a time: claims ahead of it, settles behind it.
 *
 * States: running (takes and runs) → draining (hands back what is not started, finishes the rest) → drained.
 */
export class BatchRunner implements TaskRunner {
  readonly #claims: ClaimsAtOnce
  readonly #ahead: ClaimAhead
  readonly #host: Host
  readonly #options: RunnerOptions
  /** What the host has, oldest first. */
  readonly #sent = new Queue<Claimed>()
  readonly #signals: SignalRunner
  readonly #outbox: Outbox
  #state: 'running' | 'draining' | 'drained' = 'running'
  #isFillDue = false
  #handled = 0
  #busySince = 0
  #lastEndAt = 0
  #ticker: NodeJS.Timeout | undefined

  constructor(claims: ClaimsAtOnce, host: Host, options: RunnerOptions) {
    this.#claims = claims
    this.#ahead = new ClaimAhead(claims, (number, report) => {
      this.#outbox.add(number, report)
      if (isLimit(report)) queueMicrotask(() => this.giveUp(report.detail)) // what was claimed before is sent first
    })
    this.#host = host
    this.#outbox = new Outbox(options.isListenedTo)
    this.#options = options
    this.#signals = new SignalRunner(options)
    host.attach({
      progress: () => this.#progress(),
      recalled: count => this.#released(count),
      died: detail => this.#hostDied(detail),
      revived: () => this.#fill(),
      failed() {}, // nothing waits for it here
    })
  }

  take(first: number, refs: readonly Ref[], lastRuns: LastRuns = []): void {
    if (this.#ahead.isEmpty && this.#sent.size === 0) this.#busySince = performance.now()
    for (const each of assignmentsOf(first, refs, lastRuns)) this.#ahead.push(each)
    if (this.#state === 'running') this.#fill()
    else this.#handBack()
  }

  signal(number: number): void {
    this.#signals.take(number)
    if (this.#state === 'running') this.#fill()
    else this.#signals.handBack()
  }

  cancel(): void {
    this.#handBack()
    this.#options.send({ type: 'cancelled', begun: Array.from(this.#sent, ({ number }) => number) })
  }

  /** Gives back what is not started. */
  #handBack(): void {
    this.#signals.handBack()
    this.#ahead.drop()
    if (this.#sent.size > 1 && !this.#host.isRecalling) {
      const left = this.#host.recall()
      this.#released(this.#sent.size - left)
    }
    this.#tell()
  }

  drain(): void {
    if (this.#state === 'running') this.#state = 'draining'
    this.#handBack()
    this.#endIfDrained()
  }

  giveUp(error: string): void {
    if (this.#state === 'running') this.#leave({ type: 'unfit', error })
    this.#endIfDrained()
  }

  fault(): boolean {
    this.#state = 'drained'
    this.#settleEnded()
    this.#released(this.#sent.size)
    this.#handBack()
    return false
  }

  announce(): void {
    const head = this.#sent.peek()
    if (head !== undefined && !head.isTold) this.#tell(head)
  }

  /** Claims and sends while the host has room. */
  #fill(): void {
    if (this.#isFillDue || this.#state !== 'running') return
    if (this.#signals.waiting > 0 && this.#sent.size === 0 && this.#signals.running === 0) this.#startSignal()
    const batch = this.#claimBatch()
    if (batch.length > 0) this.#send(batch)
    this.#tell()
    if (batch.length > 0 && !this.#ahead.isEmpty && this.#hasRoom) {
      this.#isFillDue = true
      setImmediate(() => {
        this.#isFillDue = false
        this.#fill()
      })
    }
  }

  /** The host is given no tasks meanwhile, so that a deadline knows whose it is. */
  #startSignal(): void {
    this.#tell()
    this.#signals.start(() => {
      if (this.#options.signalAsTask) this.#recycleAfter(++this.#handled)
      this.#progress()
    })
  }

  get #hasRoom(): boolean {
    if (!this.#host.isOpen || this.#signals.running + this.#signals.waiting > 0) return false
    return this.#sent.size === 0 || (!this.#ahead.isAlone && this.#host.messages < MESSAGES_AHEAD)
  }

  #claimBatch(): Claimed[] {
    if (!this.#hasRoom) return []
    const { maxTasks } = this.#options
    const room = maxTasks === 0 ? Number.POSITIVE_INFINITY : maxTasks - this.#handled - this.#sent.size
    return this.#ahead.next(room, this.#sent.size === 0)
  }

  #send(batch: readonly Claimed[]): void {
    // whether the first one begins is not known yet: it may be handed back
    if (this.#sent.size === 0) this.#lastEndAt = performance.now()
    for (const sent of batch) this.#sent.push(sent)
    this.#host.send(batch.map(({ claim }) => claim))
    this.#ticker ??= setInterval(() => this.#tick(), REPORT_WITHIN_MS)
  }

  /** While the host works and does not speak: what takes long is told of. */
  #tick(): void {
    if (this.#sent.size === 0) {
      clearInterval(this.#ticker)
      this.#ticker = undefined
      return
    }
    this.#host.listen()
    this.#progress()
    const head = this.#sent.peek()
    if (head !== undefined && !head.isTold && this.#host.hasStarted()) this.#tell(head)
  }

  #progress(): void {
    this.#settleEnded()
    this.#fill()
    this.#tell()
    this.#endIfDrained()
  }

  #settleEnded(): void {
    const ended = this.#host.collect()
    const now = performance.now()
    // how long each took is not known of those that ended together
    const ranMs = (now - this.#lastEndAt) / ended.length
    if (ended.length > 0) this.#lastEndAt = now
    for (const { outcome, printed } of ended) {
      this.#print(printed, this.#sent.peek())
      this.#settleNext(outcome, ranMs)
    }
    const printed = this.#host.takePrinted()
    if (printed !== '') this.#print(printed, this.#host.hasStarted() ? this.#sent.peek() : undefined)
  }

  /** Behind the line that its author begins. */
  #print(text: string, author: Claimed | undefined): void {
    if (text !== '' && author?.isTold === false) this.#tell(author)
    this.#options.printer.print(author?.claim.ref ?? null, 'output', text)
  }

  #settleNext(outcome: Outcome, ranMs: number): void {
    const sent = this.#sent.pop()
    if (sent === undefined) return
    const report = this.#claims.settle(sent.claim, outcome, ranMs)
    this.#outbox.add(sent.number, this.#options.isDetailed ? withClaim(report, sent.claim) : report)
    if (isHandled(report.kind)) this.#recycleAfter(++this.#handled)
  }

  /** The host will not start the last `count` of those that it has. */
  #released(count: number): void {
    const kept: Claimed[] = []
    for (let left = this.#sent.size - count; left > 0; left--) {
      const sent = this.#sent.pop()
      if (sent !== undefined) kept.push(sent)
    }
    while (this.#sent.size > 0) this.#settleNext(UNBEGUN, 0)
    for (const sent of kept) this.#sent.push(sent)
    this.#tell()
  }

  #hostDied(detail: string): void {
    this.#settleEnded()
    const ran = this.#sent.size > 0 && this.#host.hasStarted()
    if (ran) this.#settleNext({ kind: 'crash', detail }, performance.now() - this.#lastEndAt)
    this.#released(this.#sent.size)
    this.#handBack() // others need not wait for the next interpreter
    this.#endIfDrained()
  }

  #recycleAfter(handled: number): void {
    const { maxTasks } = this.#options
    const isTime = maxTasks > 0 && handled >= maxTasks && this.#state === 'running'
    if (isTime) this.#leave({ type: 'recycling', tasks: maxTasks })
  }

  #leave(why: WorkerMessage): void {
    this.#state = 'draining'
    this.#options.send(why)
    this.#handBack()
  }

  /** Tells the master what ended, and that `starting` runs. */
  #tell(starting?: Claimed): void {
    if (this.#outbox.isEmpty && starting === undefined) return
    const now = performance.now()
    const started: number[] = []
    if (starting !== undefined) {
      starting.isTold = true
      started.push(starting.number)
    }
    const hasEnded = !this.#outbox.isEmpty
    this.#options.send(this.#outbox.take(started, now - this.#busySince))
    if (hasEnded) this.#busySince = now // else the time is that of tasks that still run
  }

  #endIfDrained(): void {
    if (this.#state !== 'draining' || this.#sent.size + this.#signals.running > 0) return
    this.#tell()
    this.#state = 'drained'
    clearInterval(this.#ticker)
    this.#options.drained()
  }
}
