// Longer than others: the turns of a worker, from receiving tasks to its end, belong together.
import { ArraySet } from '../../base/array-set.js'
import { boundedFailure } from '../../base/task/failure-text.js'
import { type Outcome, UNBEGUN } from '../../base/task/outcome.js'
import type { PausedPair } from '../../base/task/pause.js'
import type { Report } from '../../base/task/report.js'
import type { Claims } from '../../engines/claims.js'
import type { GivenRun, WorkerMessage } from '../ipc/messages.js'
import type { Listening } from '../ipc/reports.js'
import { afterMessages, isStale } from './after-messages.js'
import { assignmentsOf } from './assignment.js'
import { Claimer } from './claimer.js'
import type { Executor, ExecutorListener } from './executor.js'
import { ReportBuffer } from './report-buffer.js'
import { Retirement } from './retirement.js'
import type { Run } from './run.js'
import type { RunFollower } from './run-follower.js'
import type { RunnerOptions } from './runner-options.js'
import { Secrets } from './secrets.js'
import { SignalRunner } from './signal-runner.js'

/** Yields to the event loop this often, for messages, timers and signals. */
const SLICE_MS = 5

/**
 * Claims, runs and settles the tasks that the master gives, and reports them in batches. A result that an engine
 * returns synchronously is also processed synchronously.
 *
 * States: running (takes and runs) → draining (hands back what is not started, finishes the rest) → drained.
 */
export class Runner implements ExecutorListener {
  readonly #claims: Claims
  readonly #executor: Executor
  readonly #options: RunnerOptions
  readonly #claimer: Claimer
  /** Runs that have not ended or are not settled. */
  readonly #inFlight = new ArraySet<Run>()
  readonly #secrets: Secrets
  readonly #signals: SignalRunner
  readonly #reports: ReportBuffer
  #state: 'running' | 'draining' | 'drained' = 'running'
  readonly #settling = new ArraySet<Promise<void>>()
  /** How many runs are being settled together with the fetching of another task, which waits for that. */
  #fetching = 0
  readonly #retirement: Retirement
  #isPumpDue = false
  #turnSince = 0

  /** @param open creates the executor, with this runner as its listener */
  constructor(claims: Claims, open: (listener: ExecutorListener) => Executor, options: RunnerOptions) {
    const { harakiriMs, isKilled, isConcurrent } = options
    this.#claims = claims
    this.#options = options
    this.#secrets = new Secrets(options.hide)
    this.#executor = open(this)
    this.#signals = new SignalRunner(options)
    this.#retirement = new Retirement(options, () => this.#lookAtMemory())
    this.#reports = new ReportBuffer(
      options,
      this.#inFlight,
      () => this.#claimer.takeNews(),
      () => claims.flush?.(),
    )
    this.#claimer = new Claimer({
      claims,
      isConcurrent,
      harakiriMs,
      isKilled,
      announce: claims => options.send({ type: 'claimed', claims }),
      refused: (number, report) => this.#refused(number, report),
      released: () => this.#pump(),
    })
  }

  take({ first, refs, sentAtMs, lastRuns = [], slots, isTheirTurn }: GivenRun): void {
    if (this.#claimer.isEmpty && this.#inFlight.size === 0) this.#reports.busy()
    this.#claims.refresh?.(slots)
    this.#claimer.push(assignmentsOf(first, refs, lastRuns, isTheirTurn), slots?.follow)
    if (this.#state !== 'running') this.#handBack()
    if (isStale(sentAtMs)) this.#turnLater()
    else this.#turn()
  }

  /** Queues a signal. Its handler runs in the next free slot, before waiting tasks. */
  signal(number: number): void {
    this.#signals.take(number)
    if (this.#state !== 'running') this.#signals.handBack()
    this.#turnLater()
  }

  /** Tasks with one of these pairs are not started. */
  pause(pairs: readonly PausedPair[]): void {
    this.#claimer.paused = pairs
  }

  follow(follower: RunFollower | undefined): void {
    this.#reports.follow(follower)
  }

  listen(listening: Listening): void {
    this.#reports.listen(listening)
  }

  /** Tells the master that `run`, or what the executor is running, has started, unless it knows. */
  announce(run = this.#executor.running): void {
    if (run === undefined) return this.#reports.tell()
    if (!run.isAnnounced && !run.hasEnded) this.#reports.tell(run)
  }

  /** Hands back what is not started, and reports which tasks have begun. */
  recall(): void {
    this.#handBack()
    const begun = Array.from(this.#inFlight, ({ number }) => number)
    this.#options.send({ type: 'recalled', begun: [...begun, ...this.#claimer.pending] })
  }

  /** Ends the run of one task: by its signal, or by handing it back with all that have not begun. */
  cancel(number: number): void {
    const run = [...this.#inFlight].find(each => each.number === number)
    const [hasBegun, isProgram] = [run !== undefined, run?.isProgram === true]
    this.#options.send({ type: 'cancelling', number, hasBegun, isProgram }) // before it is reported
    run?.cancel()
    if (run?.hasStarted !== true) this.#handBack()
  }

  #handBack(): void {
    this.#claimer.drop()
    this.#signals.handBack()
    this.#executor.recall()
    this.#reports.tell()
  }

  /** Hands back what is not started, and finishes what runs, within `mercyMs`. */
  drain(mercyMs: number): void {
    if (this.#state === 'running') this.#state = 'draining'
    for (const run of this.#inFlight) run.setMercy(mercyMs)
    this.#handBack()
    this.#endIfDrained()
  }

  /** This process cannot run more tasks: hands back what is not started, finishes what runs. */
  giveUp(error: string): void {
    this.#leave({ type: 'unfit', error: boundedFailure(this.shown(error)) })
    this.#endIfDrained()
  }

  /** After an exception outside any handler's call, ends what runs; nothing may run after it. @returns whether a task failed by it */
  fault(thrown: unknown): boolean {
    this.#state = 'drained'
    const isReported = this.#executor.fault(thrown, this.#inFlight)
    this.#handBack()
    return isReported
  }

  /** Resolves when every run that has ended is settled and reported; undefined: nothing to wait for. */
  get whenSettled(): Promise<unknown> | undefined {
    return this.#settling.size === 0 ? undefined : Promise.all(this.#settling)
  }

  starting(run: Run, now: number): void {
    this.#reports.starting(run, now)
  }

  ended(run: Run, outcome: Outcome, ranMs: number): void {
    run.end()
    const next = this.#state === 'running' ? this.#claimer.peek(this.#fetching) : undefined
    const isFollowed = this.#claimer.isFollowed(run, ranMs)
    const said = this.#withoutHidden(run, run.outcomeOf(outcome))
    this.#secrets.ended(run)
    const report = this.#claims.settle(run.claim, said, ranMs, next, isFollowed)
    if (!(report instanceof Promise)) return this.#settled(run, report)
    this.#inFlight.add(run)
    if (next !== undefined) this.#fetching++
    const settled = report.then(late => {
      if (next !== undefined) this.#fetching--
      this.#settling.delete(settled)
      this.#settled(run, late)
      this.#pump()
    })
    this.#settling.add(settled)
  }

  /** What is hidden is in no record, no dead letter and no line: neither with its key nor without it. */
  #withoutHidden(run: Run, outcome: Outcome): Outcome {
    if (!this.#options.hide.isOn || !('detail' in outcome) || outcome.detail === undefined) return outcome
    const { detail } = outcome
    const isForeign = this.#state === 'drained' // a fault: a task that has ended may have left behind what threw
    const said = isForeign ? this.#secrets.withoutAny(detail) : this.#secrets.withoutThoseOf(run, detail)
    return { ...outcome, detail: said }
  }

  /** A text of this process, without what is hidden in the tasks that run in it, or did before. */
  shown(text: string): string {
    return this.#secrets.withoutAny(text)
  }

  hasRoom(): void {
    this.#pump()
  }

  batchEnded(): void {
    this.#reports.tell()
    this.#pump()
  }

  closed(): void {
    this.#handBack() // other workers can run them before it is open again
    this.#endIfDrained()
  }

  /** Starts a turn, after messages have been read. */
  #turn(): void {
    if (this.#isPumpDue) return
    this.#executor.turnBegan()
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
      if (now - this.#turnSince > SLICE_MS) return this.#turnLater()
      if (this.#claimer.size <= this.#fetching || !this.#startBatch(now)) break
    }
    if (this.#retirement.reason !== undefined) this.#leave(this.#retirement.reason)
    if (this.#claimer.isEmpty) this.#claims.giveBack?.()
    this.#reports.turnEnded(this.#claimer.isDry, this.#underWay === 0)
    this.#endIfDrained()
  }

  /** After the messages that wait: one of them may take back what is not started. */
  #turnLater(): void {
    if (this.#isPumpDue) return
    this.#reports.tell()
    this.#isPumpDue = true
    afterMessages(() => {
      this.#isPumpDue = false
      this.#turn()
    })
  }

  get #hasRoom(): boolean {
    if (this.#state !== 'running' || this.#retirement.reason !== undefined || !this.#executor.isOpen)
      return false
    if (this.#underWay < this.#executor.slots) return true
    const isOther = this.#signals.waiting + this.#signals.running + this.#claimer.waiting > 0
    return this.#executor.takesAhead && !this.#claimer.isAlone && !isOther
  }

  get #underWay(): number {
    return this.#inFlight.size + this.#signals.running + this.#claimer.waiting
  }

  #startSignal(): void {
    this.#reports.tell() // its handler may block for long
    this.#signals.start(() => {
      if (this.#options.signalAsTask) this.#retirement.handled()
      this.#pump()
    })
  }

  /** @returns false if `spooler-max-tasks` allows no more */
  #startBatch(now: number): boolean {
    const room = this.#retirement.room(this.#executor.batchTasks, this.#underWay)
    if (room <= 0) return false
    const runs = this.#claimer.next(room, this.#inFlight.size === 0, now)
    if (runs instanceof Promise)
      void runs.then(late => {
        this.#begun(late, performance.now())
        this.#pump()
      })
    else this.#begun(runs, performance.now()) // a claim takes long on a slow disk
    return true
  }

  #begun(runs: readonly Run[], now: number): void {
    if (this.#state !== 'running') {
      for (const run of runs) this.ended(run, UNBEGUN, 0)
      return
    }
    for (const run of runs) this.#secrets.began(run)
    this.#executor.start(runs, now)
    for (const run of runs) if (!run.hasEnded) this.#inFlight.add(run)
    if (this.#claimer.takeMessageDone() && !this.#claimer.isEmpty) this.#reports.tell() // the next batch comes meanwhile
  }

  #settled(run: Run, report: Report): void {
    this.#inFlight.delete(run)
    this.#reports.ended(run, report)
    this.#retirement.settled(report, this.#executor.batchTasks === 1)
  }

  /** With a task under way, the end of that one is soon enough. */
  #lookAtMemory(): void {
    if (this.#underWay > 0) return
    this.#retirement.look()
    this.#pump()
  }

  #refused(number: number, report: Report): void {
    this.#reports.add(number, report)
    if (report.reason === 'crashed') this.#reports.tell() // or the next one may take the report along when it crashes, too
    this.#retirement.refused(report, this.#executor.batchTasks === 1)
  }

  #leave(why: WorkerMessage): void {
    if (this.#state !== 'running') return
    this.#state = 'draining'
    this.#options.send(why)
    this.#handBack()
  }

  #endIfDrained(): void {
    if (this.#state !== 'draining' || this.#underWay > 0) return
    this.#state = 'drained'
    this.#reports.tell()
    this.#options.drained()
  }
}
