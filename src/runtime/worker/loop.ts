import { setImmediate } from '../../base/own-clock.js'
import { isThenable } from '../../base/promise.js'
import { ArraySet, Queue } from '../../base/queue.js'
import { boundedFailure, stackOf } from '../../base/task/failure-text.js'
import { type Company, type Outcome, UNBEGUN } from '../../base/task/outcome.js'
import type { PausedPair } from '../../base/task/pause.js'
import type { Ref } from '../../base/task/ref.js'
import type { ClaimNotice, Report } from '../../base/task/report.js'
import type { Awaitable, Claim, DeadRun, Death, TellDeath, WorkerClaims } from '../../engines/claims.js'
import type { Hide } from '../../formats/protocol/hide.js'
import { lastValue } from '../../formats/protocol/vars.js'
import type { Marks } from '../ipc/marks.js'
import type { GivenRun, RunNews, WorkerMessage, WorkerOptions } from '../ipc/messages.js'
import { eachOf } from '../ipc/reports.js'
import { endOf } from '../tasks/lifecycle.js'
import type { Executor, ExecutorListener } from './executor.js'
import { Followers } from './followers.js'
import { begunTask } from './named-tasks.js'
import { ReportBuffer, type ReportBufferOptions } from './report-buffer.js'
import { Retirement } from './retirement.js'
import { type Given, Run, type RunLimits } from './run.js'
import { Secrets } from './secrets.js'

/** The loop yields to the event loop every this many ms, for messages, timers and signals. */
const SLICE_MS = 5
/** Claiming a page takes at most about this many ms, because messages wait meanwhile. */
const PAGE_MS = 5
/** If claiming a page took longer than this, in ms, the process or its disk was stopped, and messages may have come meanwhile. */
const STALLED_MS = 100
/** The most bytes of bodies in a page, because large bodies may be in memory twice. */
const PAGE_BYTES = 1024 * 1024

/** Kept here because Node's global `performance` is a getter, and each task would read it five times. */
const clock = performance

type OfWorker = Pick<WorkerOptions, 'maxTasks' | 'memory' | 'signalAsTask'>

interface LoopOptions extends OfWorker, ReportBufferOptions, RunLimits {
  readonly marks: Marks
  /** True if tasks begin while others run in this process, so that a task that must be alone cannot run here. */
  readonly isConcurrent: boolean
  readonly hide: Hide
  /** Tells the hosts that the process of a task has died. */
  readonly died: TellDeath
  /** Called before the end of a run is told. */
  ends?(run: Run): void
  /** Calls the handler of a signal. */
  handle(signal: number): unknown
  /** Called when nothing is running, and nothing will run any more. */
  drained(): void
}

/** Tasks that are claimed together, and begin together. */
interface Page {
  /** The claimed tasks. */
  readonly runs: Run[]
  /** Of these, the tasks that have begun. */
  readonly begun: Run[]
  /** How many tasks the page may have. */
  readonly room: number
  /** True if nothing ran when the page was opened. */
  readonly isIdle: boolean
  /** When the page was opened, on the clock of `performance.now()`. */
  readonly since: number
  bytes: number
  isFull: boolean
  /** True once no more tasks of the page are to begin. */
  isDropped: boolean
}

/**
 * Takes the tasks that the master gives through claim → begin → run → settle → next. What an engine or a handler returns
 * synchronously is also processed synchronously.
 *
 * A task that begins with others, or while others run, begins "beside" them: if their process dies, it is unknown which one is to
 * blame. Unless `isConcurrent`, a task that must be alone, that runs at most once, or that needs a slot, begins only when nothing
 * else runs, and no task begins beside it. A task with a slot does so because it must not keep the slot while it waits for
 * others.
 *
 * States: running → draining (hands back what has not begun, finishes the rest) → drained.
 */
export class Loop implements ExecutorListener {
  readonly #claims: WorkerClaims
  readonly #executor: Executor
  readonly #options: LoopOptions
  readonly #queue = new Queue<Given>()
  readonly #followers: Followers
  readonly #secrets: Secrets
  readonly #reports: ReportBuffer
  readonly #retirement: Retirement
  /** Called with news of each single run of a named task. */
  #follow: ((news: RunNews) => void) | undefined
  #state: 'running' | 'draining' | 'drained' = 'running'
  /** Tasks with one of these pairs are parked. */
  #paused: readonly PausedPair[] = []

  // What is under way
  /** The pages whose tasks are being claimed, or begin. */
  readonly #pages = new ArraySet<Page>()
  /** A claimed task that waits until nothing runs. */
  #waitsToBeAlone: Run | undefined
  /** True if the task that began last began alone. */
  #isAlone = false
  /** Runs that have not ended or are not settled. */
  readonly #inFlight = new ArraySet<Run>()
  /** How many queued tasks are being fetched by the commands that settle runs. They are claimed only after that. */
  #fetching = 0
  /** How many claims are being given up for which no page waits. */
  #releasing = 0
  /** True once the claim of the last task of a message has begun. */
  #isMessageDone = false
  /** The signals whose handlers have not been called. */
  readonly #signals = new Queue<number>()
  #signalsRunning = 0

  #turnSince = 0
  #turning: Promise<void> | undefined
  #changed: Promise<void> | undefined
  #wakeUp = () => {}

  /** @param open creates the executor, with this loop as its listener */
  constructor(claims: WorkerClaims, open: (listener: ExecutorListener) => Executor, options: LoopOptions) {
    this.#claims = claims
    this.#options = options
    this.#secrets = new Secrets(options.hide)
    this.#followers = new Followers(claims.slots)
    this.#reports = new ReportBuffer(options, this.#inFlight, this.#followers, claims)
    this.#executor = open(this)
    const isOneByOne = this.#executor.pageTasks === 1
    this.#retirement = new Retirement({ ...options, isOneByOne }, () => this.#lookAtMemory())
    for (let i = 0; i < this.#executor.slots; i++) void this.#work()
  }

  /**
   * Takes one page after the other. There is one such loop per slot of the executor. It awaits only what is a promise, so that a
   * synchronous handler costs no turn of the event loop.
   */
  async #work(): Promise<void> {
    while (this.#state === 'running') {
      const now = clock.now()
      if (this.#isTurnDue(now)) await this.#turn()
      else if (this.#retirement.reason !== undefined) this.#leave(this.#retirement.reason)
      else if (!this.#mayBegin) await this.#change()
      else if (this.#signals.size > 0) await this.#runSignal()
      else {
        const page = this.#openPage(now)
        if (page === undefined) {
          await this.#change()
          continue
        }
        const claimed = this.#claimPage(page)
        if (claimed !== undefined) await claimed
        const begun = this.#beginPage(page)
        if (begun !== undefined) await begun
        this.#pages.delete(page)
        const running = this.#run(page.begun)
        if (running !== undefined) await this.#whileOthersGoOn(running)
      }
    }
    this.#wake()
  }

  // What the master says

  take({ numbers, refs, lastRuns = [], slots, isTheirTurn }: GivenRun): void {
    if (this.#isEmpty && this.#inFlight.size === 0) this.#reports.busy()
    this.#claims.slots?.refresh(slots)
    const lastRunOf = lastRuns.length === 0 ? undefined : new Map(lastRuns)
    const given: Given[] = []
    eachOf(numbers, number => {
      const place = given.length
      given.push({
        number,
        ref: refs[place] ?? '',
        lastRun: lastRunOf?.get(place),
        isLast: place === refs.length - 1,
        isItsTurn: isTheirTurn === true,
        isTaken: false,
      })
    })
    if (slots?.follow !== undefined) this.#followers.add(slots.follow, given)
    else for (const each of given) this.#queue.push(each)
    if (this.#state !== 'running') this.#handBack()
    if (this.#turning === undefined) this.#startTurn()
    this.#wake()
  }

  /** Queues a signal. Its handler runs in the next free slot of the executor, before waiting tasks. */
  signal(number: number): void {
    this.#signals.push(number)
    if (this.#state !== 'running') this.#handSignalsBack()
    this.#readFirst()
    this.#wake()
  }

  /** Parks tasks with one of these pairs from now on, when they are claimed. */
  pause(pairs: readonly PausedPair[]): void {
    this.#paused = pairs
  }

  follow(tell: ((news: RunNews) => void) | undefined): void {
    this.#follow = tell
  }

  /** Hands back what has not begun. */
  recall(): void {
    this.#handBack()
    this.#options.send({ type: 'recalled' })
  }

  /** Cancels one task: aborts its run, or hands it back with all tasks that have not begun. */
  cancel(number: number): void {
    const run = [...this.#inFlight].find(each => each.number === number)
    const [hasBegun, isProgram] = [run !== undefined, run?.isProgram === true]
    this.#options.send({ type: 'cancelling', number, hasBegun, isProgram }) // before the task is reported
    run?.cancel()
    if (run?.hasStarted !== true) this.#handBack()
  }

  /** Hands back what has not begun, and finishes what runs, within `mercyMs`. */
  drain(mercyMs: number): void {
    if (this.#state === 'running') this.#state = 'draining'
    for (const run of this.#inFlight) run.setMercy(mercyMs)
    this.#handBack()
    this.#wake()
  }

  /** Hands back what has not begun, and finishes what runs, because this process cannot run more tasks. */
  giveUp(error: string): void {
    this.#leave({ type: 'unfit', error: boundedFailure(this.shown(error)) })
  }

  /**
   * Ends what runs after an exception outside any handler's call. Nothing may run after it.
   *
   * @returns true if the exception is reported as the failure of a task
   */
  fault(thrown: unknown): boolean {
    this.#state = 'drained'
    const isReported = this.#executor.fault(thrown, this.#inFlight)
    this.#handBack()
    return isReported
  }

  /** As `fault`, when this process ends now. The master puts back what an engine would settle only later. */
  abandon(): void {
    this.fault(undefined)
    for (const run of this.#inFlight)
      this.#settled(run, { ...untouched(run.claim.ref), name: run.claim.name })
    this.#reports.tell()
  }

  /** Resolves after a fault when all ended runs are settled and reported, and tasks that were about to begin are given up. */
  async settled(): Promise<void> {
    while (this.#underWay > this.#signalsRunning) await this.#change()
  }

  /** Tells that the process of a task has died: another worker, as a claim has found, or the interpreter of this one. */
  died(run: DeadRun, death: Death): void {
    const task = this.#follow && begunTask(run)
    if (task !== undefined) this.#follow?.({ type: 'run-died', task, end: endOf(death) })
    this.#options.died(run, death)
  }

  /** Returns a text of this process without the hidden values of the tasks that run in it, or did before. */
  shown(text: string): string {
    return this.#secrets.withoutAny(text)
  }

  /** @see Secrets.begunIn */
  begunIn(text: string): number {
    return this.#secrets.begunIn(text)
  }

  /** Tells the master that `run`, or the run in the executor, has started, unless the master has been told. */
  announce(run = this.#executor.running?.()): void {
    if (run === undefined) return this.#reports.tell()
    if (!run.isAnnounced && !run.hasEnded) this.#reports.tell(run)
  }

  // Claim

  /** How many tasks have not begun, without those that are being claimed, or that wait until others of their name end. */
  get #size(): number {
    return this.#queue.size + this.#followers.ready + (this.#waitsToBeAlone === undefined ? 0 : 1)
  }

  get #isEmpty(): boolean {
    return this.#size === 0
  }

  get #underWay(): number {
    return this.#inFlight.size + this.#signalsRunning + this.#pages.size + this.#releasing
  }

  /**
   * True if a page or a signal's handler may begin. While all slots are in use, only a page may begin, and only if no task is
   * alone or waits to be alone, and if no signal waits: its handler waits until the tasks have ended.
   */
  get #mayBegin(): boolean {
    if (!this.#executor.isOpen) return false
    if (this.#inFlight.size < this.#executor.slots) return true
    return !this.#isAlone && this.#waitsToBeAlone === undefined && this.#signals.size === 0
  }

  /** @returns undefined if there is nothing to claim, or `spooler-max-tasks` allows no more */
  #openPage(now: number): Page | undefined {
    if (this.#size <= this.#fetching) return undefined
    const room = this.#retirement.room(this.#executor.pageTasks, this.#underWay)
    if (room <= 0) return undefined
    const page: Page = {
      runs: [],
      begun: [],
      room,
      isIdle: this.#inFlight.size === 0,
      since: now,
      bytes: 0,
      isFull: false,
      isDropped: false,
    }
    this.#pages.add(page)
    return page
  }

  /** Claims tasks that can begin together. */
  #claimPage(page: Page): Promise<void> | undefined {
    if (this.#waitsToBeAlone !== undefined) this.#add(this.#waitsToBeAlone, page)
    while (!page.isFull && !page.isDropped) {
      const given = this.#followers.pop() ?? this.#queue.pop()
      if (given === undefined) break
      if (given.isLast) this.#isMessageDone = true
      if (!this.#take(given)) continue
      const claim = this.#claim(given)
      if (isThenable(claim)) {
        return claim.then(late => {
          this.#claimed(given, late, page)
          return this.#claimPage(page)
        })
      }
      this.#claimed(given, claim, page)
    }
    return undefined
  }

  /** @returns false if the master has withdrawn the task */
  #take(given: Given): boolean {
    given.isTaken ||= this.#options.marks.take(given.number)
    if (!given.isTaken) this.#followers.refused(given.number, untouched(given.ref))
    return given.isTaken
  }

  #claim({ ref, lastRun, isItsTurn }: Given): Awaitable<Claim | Report> {
    const claim = this.#claims.claim(ref, lastRun)
    return isThenable(claim)
      ? claim.then(late => this.#unlessParked(late, isItsTurn))
      : this.#unlessParked(claim, isItsTurn)
  }

  #unlessParked(claim: Claim | Report, isItsTurn: boolean): Awaitable<Claim | Report> {
    if ('kind' in claim) return claim
    const pair = this.#paused.length === 0 ? undefined : this.#pauseOf(claim)
    if (pair !== undefined) return this.#releasePaused(claim, pair)
    if (claim.hasCrashed && !isItsTurn) return this.#claims.release(claim, 'crashed')
    if (this.#options.isConcurrent && claim.mustBeAlone) return this.#claims.release(claim, 'alone')
    if (claim.findsNoSlot === true) return this.#claims.release(claim, 'slot')
    return claim
  }

  #pauseOf({ vars }: Claim): PausedPair | undefined {
    return this.#paused.find(([key, value]) => lastValue(vars, key) === value)
  }

  #releasePaused(claim: Claim, pair: PausedPair): Awaitable<Report> {
    const report = this.#claims.release(claim, 'paused')
    return isThenable(report) ? report.then(late => ({ ...late, pair })) : { ...report, pair }
  }

  #claimed({ number }: Given, claim: Claim | Report, page: Page): void {
    if ('kind' in claim) return this.#refused(number, claim)
    if (claim.notice !== undefined) this.#announceClaim(number, claim.notice)
    this.#add(new Run(claim, number, this.#options), page)
  }

  #add(run: Run, page: Page): void {
    const { mustBeAlone, isOnce, terms, bodyBytes } = run.claim
    const mayNotWait = mustBeAlone || isOnce || terms?.slots !== undefined
    const isForAlone = mayNotWait && !this.#options.isConcurrent
    if (isForAlone && (page.runs.length > 0 || !page.isIdle)) {
      this.#waitsToBeAlone = run
      page.isFull = true
      return
    }
    if (run === this.#waitsToBeAlone) this.#waitsToBeAlone = undefined
    page.runs.push(run)
    page.bytes += bodyBytes
    page.isFull =
      isForAlone ||
      page.runs.length >= page.room ||
      page.bytes >= PAGE_BYTES ||
      clock.now() - page.since > PAGE_MS
  }

  /** Announces a claim, which the master has to know before the task begins. Claims of one moment go into one message. */
  #announceClaim(number: number, notice: ClaimNotice): void {
    // soon enough, because an engine takes more than one microtask to store that a run begins
    if (this.#notices.length === 0) queueMicrotask(() => this.#tellNotices())
    this.#notices.push([number, notice])
  }

  #notices: Array<readonly [number: number, notice: ClaimNotice]> = []

  #tellNotices(): void {
    if (this.#notices.length === 0) return
    this.#options.send({ type: 'claimed', claims: this.#notices })
    this.#notices = []
  }

  // Begin

  /** Marks the tasks of a page as begun, right before they run. */
  #beginPage(page: Page): Promise<void> | undefined {
    if (page.runs.length === 0) return undefined
    const company = page.isIdle && page.runs.length === 1 && !this.#options.isConcurrent ? 'alone' : 'beside'
    this.#isAlone = company === 'alone'
    if (clock.now() - page.since <= STALLED_MS) return this.#beginFrom(0, page, company)
    return afterMessages().then(() => this.#beginFrom(0, page, company))
  }

  #beginFrom(first: number, page: Page, company: Company): Promise<void> | undefined {
    for (let i = first; i < page.runs.length; i++) {
      const run = page.runs[i]
      if (run === undefined) continue
      const refusal = page.isDropped ? this.#claims.release(run.claim) : this.#begin(run, company)
      if (isThenable(refusal))
        return refusal.then(late => {
          this.#began(run, late, page)
          return this.#beginFrom(i + 1, page, company)
        })
      this.#began(run, refusal, page)
    }
    this.#tellNotices()
    return undefined
  }

  #begin({ claim, number }: Run, company: Company): Awaitable<Report | undefined> {
    this.#options.marks.begin(number)
    return this.#claims.begin(claim, company)
  }

  #began(run: Run, refusal: Report | undefined, page: Page): void {
    if (refusal !== undefined) return this.#refused(run.number, refusal)
    this.#followers.began(run.number, run.claim.terms?.slots)
    page.begun.push(run)
  }

  #refused(number: number, refusal: Report): void {
    const report = this.#followers.refused(number, refusal)
    this.#options.marks.over(number, false)
    this.#reports.add(number, report)
    if (report.reason === 'crashed') this.#reports.tell() // or the report would be lost if the next one crashes this process, too
    this.#retirement.refused(report)
  }

  // Run

  /** Runs tasks that have begun. @returns a promise until the executor takes another page; undefined: it does now */
  #run(runs: readonly Run[]): Promise<void> | undefined {
    if (runs.length === 0) return undefined
    // where claims take a while, a host may have died since this page was opened
    if (this.#state !== 'running' || !this.#executor.isOpen) {
      for (const run of runs) this.ended(run, UNBEGUN, 0)
      return undefined
    }
    for (const run of runs) this.#secrets.began(run)
    const running = this.#executor.run(runs, clock.now()) // the time is read again, because claiming takes long on a slow disk
    for (const run of runs) if (!run.hasEnded) this.#inFlight.add(run)
    if (this.#isMessageDone && !this.#isEmpty) this.#reports.tell() // so that the next batch comes meanwhile
    this.#isMessageDone = false
    return running
  }

  /** Runs the handler of the signal that has waited longest. */
  async #runSignal(): Promise<void> {
    const number = this.#signals.pop()
    if (number === undefined) return
    const { handle, send, signalAsTask } = this.#options
    this.#reports.tell() // the handler may block for long
    this.#signalsRunning++
    send({ type: 'signal-started', number })
    try {
      await handle(number)
      send({ type: 'signal-ended', number })
    } catch (thrown) {
      send({ type: 'signal-ended', number, error: boundedFailure(stackOf(thrown)) })
    }
    this.#signalsRunning--
    if (signalAsTask) this.#retirement.handled()
    this.#wake()
  }

  #handSignalsBack(): void {
    for (let next = this.#signals.pop(); next !== undefined; next = this.#signals.pop())
      this.#options.send({ type: 'signal-returned', number: next })
  }

  starting(run: Run, now: number): void {
    this.#options.marks.start(run.number)
    this.#reports.starting(run, now)
    if (this.#follow === undefined) return
    run.told = begunTask(run.claim)
    if (run.told !== undefined) this.#follow({ type: 'run-began', number: run.number, task: run.told })
  }

  // Settle

  ended(run: Run, outcome: Outcome, ranMs: number): Promise<void> | undefined {
    this.#options.ends?.(run)
    run.end()
    this.#options.marks.end(run.number)
    if (outcome.kind === 'release' && outcome.shortage !== undefined) this.giveUp(outcome.shortage)
    const next = this.#state === 'running' ? this.#nextTaken() : undefined
    const slots = run.claim.terms?.slots
    const isFollowed = slots !== undefined && this.#followers.ended(slots, ranMs)
    const said = this.#withoutHidden(run, run.outcomeOf(outcome))
    this.#secrets.ended(run)
    const isTold = said.kind === 'crash' && run.claim.terms !== undefined
    const died = isTold ? { run: asItWas(run.claim), cause: said.detail } : undefined
    const report = this.#claims.settle(run.claim, said, ranMs, next, isFollowed)
    if (!isThenable(report)) {
      this.#settled(run, report, died)
      return undefined
    }
    this.#inFlight.add(run)
    if (next !== undefined) this.#fetching++
    return report.then(late => {
      if (next !== undefined) this.#fetching--
      this.#settled(run, late, died)
      this.#wake()
    })
  }

  /** Takes the task that is claimed after those that are being fetched. @returns its ref */
  #nextTaken(): Ref | undefined {
    const next = this.#queue.peek(this.#fetching)
    if (next === undefined) return undefined
    next.isTaken ||= this.#options.marks.take(next.number)
    return next.isTaken ? next.ref : undefined
  }

  /**
   * Returns the outcome without hidden values, so that no record, dead letter or log line has them, with or without their keys.
   */
  #withoutHidden(run: Run, outcome: Outcome): Outcome {
    if (!this.#options.hide.isOn || !('detail' in outcome) || outcome.detail === undefined) return outcome
    const { detail } = outcome
    const isForeign = this.#state === 'drained' // after a fault, because the code that threw may be of a task that has ended
    const said = isForeign ? this.#secrets.withoutAny(detail) : this.#secrets.withoutThoseOf(run, detail)
    return { ...outcome, detail: said }
  }

  /** @param died set if the interpreter of the task has died */
  #settled(run: Run, report: Report, died?: { readonly run: DeadRun; readonly cause: string }): void {
    this.#inFlight.delete(run)
    this.#options.marks.over(run.number, report.kind === 'ok')
    const death = died === undefined ? undefined : deathIn(report, died.cause)
    const { kind, atMs, detail } = death === undefined ? report : endOf(death)
    const { number, told: task } = run
    if (task !== undefined) this.#follow?.({ type: 'run-ended', number, task, end: { kind, atMs, detail } })
    this.#reports.ended(run, report)
    if (died !== undefined && death !== undefined) this.#options.died(died.run, death)
    this.#retirement.settled(report)
  }

  // Next

  progressed(): void {
    this.#reports.tell()
    this.#wake()
  }

  /** Call it when the executor is not open for now, and its runs have ended. */
  closed(): void {
    this.#handBack() // so that other workers can run the tasks before the executor is open again
    this.#wake()
  }

  #isTurnDue(now: number): boolean {
    return this.#turning !== undefined || now - this.#turnSince > SLICE_MS
  }

  /** Starts a turn after the event loop has gone round, for messages, timers and signals. */
  #turn(): Promise<void> {
    this.#turning ??= new Promise<void>(resolve => setImmediate(resolve)).then(() => this.#startTurn())
    return this.#turning
  }

  #startTurn(): void {
    this.#turning = undefined
    this.#executor.turnBegan?.()
    this.#turnSince = clock.now()
  }

  /** Makes a turn due, so that messages are read before more tasks begin. */
  #readFirst(): void {
    this.#turnSince = Number.NEGATIVE_INFINITY
  }

  /** Resolves when there may be something to do. */
  #change(): Promise<void> {
    this.#turnEnded()
    this.#changed ??= new Promise(resolve => {
      this.#wakeUp = resolve
    })
    return this.#changed
  }

  #wake(): void {
    if (this.#state !== 'running') this.#turnEnded()
    if (this.#state === 'draining') this.#endIfDrained()
    this.#changed = undefined
    this.#wakeUp()
  }

  #whileOthersGoOn(running: Promise<void>): Promise<void> {
    this.#turnEnded()
    return running
  }

  #turnEnded(): void {
    if (this.#isEmpty) this.#claims.rest(true)
    this.#reports.turnEnded(this.#isEmpty && this.#followers.following === 0, this.#underWay === 0)
  }

  /** Looks at the memory. While a task is under way, the look at its end is soon enough. */
  #lookAtMemory(): void {
    if (this.#underWay > 0) return
    this.#retirement.look()
    this.#wake()
  }

  #handBack(): void {
    const waited = this.#waitsToBeAlone
    this.#waitsToBeAlone = undefined
    if (waited !== undefined) this.#release(waited)
    for (const given of [...this.#followers.drop(), ...this.#queue])
      if (this.#take(given)) this.#refused(given.number, untouched(given.ref))
    this.#queue.clear()
    for (const page of this.#pages) page.isDropped = true
    this.#handSignalsBack()
    this.#executor.recall?.()
    this.#reports.tell()
  }

  #release({ claim, number }: Run): void {
    const report = this.#claims.release(claim)
    if (!isThenable(report)) return this.#refused(number, report)
    this.#releasing++
    void report.then(late => {
      this.#releasing--
      this.#refused(number, late)
      this.#wake()
    })
  }

  #leave(why: WorkerMessage): void {
    if (this.#state !== 'running') return
    this.#state = 'draining'
    this.#options.send(why)
    this.#handBack()
    this.#wake()
  }

  #endIfDrained(): void {
    if (this.#underWay > 0) return
    this.#state = 'drained'
    this.#reports.tell()
    this.#options.drained()
  }
}

function untouched(ref: Ref): Report {
  return { ref, kind: 'untouched', ranMs: 0 }
}

/** Returns the data of a run that are needed after its claim is settled. */
function asItWas(claim: Claim): DeadRun {
  const { ref, name, vars, terms, dueAtMs, attempt, bodyBytes } = claim
  const body = claim.readBody() // the body is in memory, because the interpreter has had it
  return { ref, name, vars, terms, dueAtMs, attempt, bodyBytes, readBody: () => body }
}

/** Returns what has become of a dead run; undefined if that was not recorded: then the next claim finds and tells it. */
function deathIn({ kind, atMs }: Report, cause: string): Death | undefined {
  if (kind === 'buried') return { cause, atMs: undefined }
  return kind === 'later' && atMs !== undefined ? { cause, atMs } : undefined
}

/**
 * Resolves after all pending messages have been read. It takes two turns of the event loop: the first may belong to the current
 * poll phase, which does not read a pipe twice.
 */
function afterMessages(): Promise<void> {
  return new Promise(resolve => {
    setImmediate(() => setImmediate(resolve))
  })
}
