// Longer than others: the turns, reports and end of one worker read as one story.
import { Queue } from '../base/queue.js'
import type { Claim, ClaimsAtOnce } from '../engines/claims.js'
import { type LastRuns, Outbox, type WorkerMessage } from '../ipc/messages.js'
import { fromThrown } from '../task/answer.js'
import { type Outcome, RELEASE } from '../task/outcome.js'
import type { Ref } from '../task/ref.js'
import { isHandled, type Report } from '../task/report.js'
import { afterMessages } from './after-messages.js'
import type { Executor } from './executor.js'
import { limitReached } from './limits.js'
import { Run } from './run.js'
import { SignalRunner } from './signal-runner.js'
import {
  type Assignment,
  assignmentsOf,
  REPORT_WITHIN_MS,
  type RunnerOptions,
  SLICE_MS,
  type TaskRunner,
  withClaim,
} from './task-runner.js'

/**
 * Claims, runs and settles what the master gives, `concurrency` at a time, and reports in batches.
 *
 * States: running (takes and runs) → draining (hands back what is not started, finishes the rest) → drained.
 */
export class Runner implements TaskRunner {
  readonly #claims: ClaimsAtOnce
  readonly #executor: Executor
  readonly #options: RunnerOptions
  readonly #queue = new Queue<Assignment>()
  /** Runs that their handlers have promised to end. */
  readonly #inFlight = new Set<Run>()
  readonly #signals: SignalRunner
  readonly #outbox: Outbox
  #state: 'running' | 'draining' | 'drained' = 'running'
  #isPumpDue = false
  #handled = 0
  #turnSince = 0
  /** The first end is told at once: should the process die, the next one need not wait (base/respawn-pace). */
  #hasReported = false
  #lastReportAt = 0
  #busySince = 0
  /** Until it is told what is in flight. */
  #timer: NodeJS.Timeout | undefined

  constructor(claims: ClaimsAtOnce, executor: Executor, options: RunnerOptions) {
    this.#claims = claims
    this.#executor = executor
    this.#outbox = new Outbox(options.isListenedTo)
    this.#options = options
    this.#signals = new SignalRunner(options)
  }

  take(first: number, refs: readonly Ref[], lastRuns: LastRuns = []): void {
    if (this.#queue.size === 0 && this.#inFlight.size === 0) this.#busySince = performance.now()
    for (const each of assignmentsOf(first, refs, lastRuns)) this.#queue.push(each)
    if (this.#state !== 'running') this.#handBack()
    this.#turn()
  }

  /** A signal is due: its handler has the next free place, before the tasks that wait. */
  signal(number: number): void {
    this.#signals.take(number)
    if (this.#state !== 'running') this.#signals.handBack()
    this.#turn()
  }

  /** Tells the master that this task runs, or that all in flight do, if it was not told. */
  announce(run?: Run): void {
    if (run === undefined) return this.#tell()
    if (!run.isTold && !run.hasEnded) this.#tell(this.#inFlight.has(run) ? undefined : run)
  }

  /** @see TaskRunner.cancel */
  cancel(): void {
    this.#queue.clear()
    this.#signals.handBack()
    this.#tell()
    this.#options.send({ type: 'cancelled', begun: Array.from(this.#inFlight, ({ number }) => number) })
  }

  /** Gives back what is not started. */
  #handBack(): void {
    for (let next = this.#queue.pop(); next !== undefined; next = this.#queue.pop())
      this.#outbox.add(next.number, { ref: next.ref, kind: 'untouched', ranMs: 0 })
    this.#signals.handBack()
    this.#tell()
  }

  /** Finishes what runs, for which there are `mercyMs` left. */
  drain(mercyMs: number): void {
    if (this.#state === 'running') this.#state = 'draining'
    for (const run of this.#inFlight) run.setMercy(mercyMs)
    this.#handBack()
    this.#endIfDrained()
  }

  giveUp(error: string): void {
    if (this.#state !== 'running') return
    this.#leave({ type: 'unfit', error })
    this.#endIfDrained()
  }

  /**
   * Something was thrown outside of every handler's call: settles what is in flight, as a failure of the run that threw
   * it and as if the others had not begun. Nothing may be run after it.
   */
  fault(thrown: unknown): boolean {
    this.#state = 'drained'
    const { author } = this.#executor
    const isGuilty = (run: Run) => this.#options.concurrency === 1 || run === author
    const isTold = [...this.#inFlight].some(isGuilty)
    for (const run of this.#inFlight) this.#finish(run, isGuilty(run) ? fromThrown(thrown) : RELEASE)
    this.#inFlight.clear()
    this.#handBack()
    return isTold
  }

  /** Messages have been read. */
  #turn(): void {
    if (this.#isPumpDue) return
    this.#executor.forgetDirectory()
    this.#turnSince = performance.now()
    this.#pump()
  }

  #pump(): void {
    if (this.#isPumpDue) return
    while (this.#hasRoom) {
      if (this.#signals.waiting > 0) {
        this.#startSignal()
        continue
      }
      const now = performance.now()
      if (now - this.#turnSince > SLICE_MS) return this.#pumpLater()
      const next = this.#queue.pop()
      if (next === undefined) break
      this.#start(next, now)
      if (next.isLast && this.#queue.size > 0) this.#tell() // so that the next batch comes while this one runs
    }
    const isWanted = !this.#outbox.isEmpty && (this.#queue.size === 0 || !this.#hasReported)
    if (this.#inFlight.size === 0 || isWanted) this.#tell()
    else this.#tellLater()
    this.#endIfDrained()
  }

  /** Most promises settle soon: a message for each would cost more than its task. */
  #tellLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#tell()
    }, REPORT_WITHIN_MS)
  }

  get #hasRoom(): boolean {
    const underWay = this.#inFlight.size + this.#signals.running
    return this.#state === 'running' && underWay < this.#options.concurrency
  }

  #startSignal(): void {
    this.#tell() // its handler may block for long
    this.#signals.start(() => {
      if (this.#options.signalAsTask) this.#recycleAfter(++this.#handled)
      this.#pump()
    })
  }

  #pumpLater(): void {
    this.#tell()
    this.#isPumpDue = true
    afterMessages(() => {
      this.#isPumpDue = false
      this.#turn()
    })
  }

  #start({ number, ref, lastRun }: Assignment, now: number): void {
    const claim = this.#claims.claim(ref, lastRun)
    if ('kind' in claim) return this.#refused(number, claim)
    const refusal = this.#begin(claim)
    if (refusal !== undefined) return this.#refused(number, refusal)
    const run = new Run(claim, number, now, this.#options.harakiriMs)
    if (now - this.#lastReportAt > REPORT_WITHIN_MS) this.#tell(run)
    const outcome = this.#executor.perform(run)
    if (!(outcome instanceof Promise)) return this.#finish(run, outcome)
    this.#inFlight.add(run)
    void outcome.then(late => {
      if (this.#inFlight.delete(run)) this.#finish(run, late)
      this.#pump()
    })
  }

  #refused(number: number, report: Report): void {
    this.#outbox.add(number, report)
    this.#look(report)
  }

  /** Is this process out of what it needs? */
  #look(report: Report): void {
    const limit = limitReached(report)
    if (limit !== undefined) this.giveUp(limit)
  }

  /** What must be alone is for a worker that runs one task at a time. */
  #begin(claim: Claim): Report | undefined {
    const isAlone = this.#options.concurrency === 1
    if (claim.mustBeAlone && !isAlone) return this.#claims.release(claim, 'alone')
    return this.#claims.begin(claim, isAlone ? 'alone' : 'beside')
  }

  #finish(run: Run, outcome: Outcome): void {
    run.end()
    const report = this.#claims.settle(run.claim, outcome, performance.now() - run.startedAt)
    this.#outbox.add(run.number, this.#options.isDetailed ? withClaim(report, run.claim) : report)
    if (isHandled(report.kind)) this.#recycleAfter(++this.#handled)
    this.#look(report)
  }

  #recycleAfter(handled: number): void {
    const { maxTasks } = this.#options
    if (maxTasks === 0 || handled < maxTasks || this.#state !== 'running') return
    this.#leave({ type: 'recycling', tasks: maxTasks })
  }

  #leave(why: WorkerMessage): void {
    this.#state = 'draining'
    this.#options.send(why)
    this.#handBack()
  }

  /** Tells the master what ended, and what runs that it does not know of: those in flight, and `starting`. */
  #tell(starting?: Run): void {
    const untold = starting === undefined ? [] : [starting]
    for (const run of this.#inFlight) if (!run.isTold) untold.push(run)
    if (this.#outbox.isEmpty && untold.length === 0) return
    const now = performance.now()
    for (const run of untold) run.isTold = true
    const started = untold.map(({ number }) => number)
    const hasEnded = !this.#outbox.isEmpty
    this.#options.send(this.#outbox.take(started, now - this.#busySince))
    this.#lastReportAt = now
    if (!hasEnded) return // the time is that of tasks that still run
    this.#busySince = now
    this.#hasReported = true
  }

  #endIfDrained(): void {
    if (this.#state !== 'draining' || this.#inFlight.size + this.#signals.running > 0) return
    this.#state = 'drained'
    this.#options.drained()
  }
}
