import { countDown, machineNowMs } from '../../base/clock.js'
import { quietly, SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { PausedPair } from '../../base/task/pause.js'
import type { Ref } from '../../base/task/ref.js'
import type { SignalNews } from '../../base/task/schedule.js'
import type { SlotNews } from '../../base/task/terms.js'
import type { SlotHints } from '../../engines/feed.js'
import { STARTED, statOf, treeCpuMsOf } from '../../system/process-usage.js'
import { drawToken } from '../ipc/frames.js'
import { SharedPage } from '../ipc/host-page.js'
import type { GivenRun, LastRuns, MasterMessage, SignalMessage, WorkerMessage } from '../ipc/messages.js'
import { howOf, type KillReason } from './cut-short.js'
import type { Exit, Reported, SpawnOptions, WorkerPort } from './worker-port.js'
import { Workload } from './workload.js'

/** A start that takes longer than this is reported. */
const SLOW_START_MS = 10_000

/** How tasks are given that are not merely the next. */
export interface HowGiven extends Pick<GivenRun, 'isTheirTurn'> {
  /** The name of them all: they may wait until others of it end there. */
  readonly follow?: string
}

/** Whoever gives tasks to workers. */
export interface WorkerListener {
  /** Its claims are leases. */
  readonly areLeased: boolean
  /** It can take tasks again. */
  opened(): void
  /** The running task has set itself another deadline. */
  deadline(): void
  signalled(worker: WorkerProcess, message: SignalMessage): void
  reported(worker: WorkerProcess, reported: Reported): void
  /** It has claimed these and announced it. */
  claimed(refs: readonly Ref[]): void
  /** It no longer has these refs, and had not begun them. */
  dropped(refs: readonly Ref[]): void
}

/**
 * The master's view of one worker process.
 *
 * States: starting → ready → draining (takes no more, exits when it is done) → exited.
 */
export class WorkerProcess {
  readonly #port: WorkerPort
  readonly #listener: WorkerListener
  readonly #events: Emitter
  readonly #answer: SpawnOptions['answer']
  /** Its tasks run in another process, so it stays responsive, and hands back tasks that have not started at once. */
  readonly #answersWhileItRuns: boolean
  #state: 'starting' | 'ready' | 'draining' | 'exited' = 'starting'
  /** As far as is known before it has ended: what it said itself, or that it was asked to. */
  #why: Exit['why'] = 'failed'
  #killed: KillReason | undefined
  /** The names whose tasks wait for slots, as it was told. */
  #queued: readonly string[] = []
  readonly spawnedAt = performance.now()
  /** What it is loading, for people. */
  #loading = 'the worker'
  /** What its start took of a processor, or how long it took where that is not known; 0 while it is not ready. */
  startCostMs = 0
  /** What its handlers declared about signals while they were loaded. */
  news: readonly SignalNews[] = []
  #started = () => {}
  #startFailed: (error: SpooldError) => void = () => {}
  /** Rejects with a SpooldError when it cannot load its handlers, or exits before it is ready. */
  readonly whenReady = new Promise<void>((resolve, reject) => {
    this.#started = resolve
    this.#startFailed = reject
  })
  readonly spool: string
  #work: Workload
  /**
   * Programs that it runs for its tasks, each the leader of its own process group, and when each has started. When the worker is killed,
   * they have to be killed before its tasks are given to others, or one would run twice at once.
   */
  readonly #programs = new Map<number, string | undefined>()
  /** The deadline that the running task set for itself (`uwsgi.set_user_harakiri`). */
  #ownDeadlineAt = Number.POSITIVE_INFINITY
  /** So long after it was set. */
  #ownDeadlineMs = Number.POSITIVE_INFINITY
  /** How many of its interpreters have died and are not replaced yet: a task would have to wait for that. */
  #deadHosts = 0
  /** Of the interpreter that it sends tasks to. */
  #page: SharedPage | undefined
  /** What its interpreter was running when it exited; undefined: that is not known. */
  #hostRan: { readonly number: number | undefined } | undefined
  /** Those of its tasks that were cancelled and do not end: it is given nothing more, and is killed as soon as it runs nothing else. */
  readonly overdue = new Set<number>()
  /** No other worker has it, on no host: two numbers at random, and the time. node:crypto would cost each start some milliseconds. */
  readonly identity = [drawToken(), drawToken(), Date.now()].map(part => part.toString(36)).join('-')
  readonly pid: number
  /** @see Roster.numberOf; undefined: nobody has asked for it */
  number: number | undefined
  readonly hasOwnProcess: boolean
  /** Resolves after its last message was received. */
  readonly whenExited: Promise<Exit>

  /** @throws when the system has no memory for another process */
  constructor(options: SpawnOptions, listener: WorkerListener, events: Emitter) {
    const { worker, answer } = options
    const { spool } = worker
    this.#listener = listener
    this.#work = new Workload(1, listener.areLeased)
    this.#events = events
    this.#answer = answer
    this.#answersWhileItRuns = worker.chain.length === 1 && worker.chain[0]?.kind === 'host'
    this.spool = spool
    this.#port = options.openPort()
    this.pid = this.#port.pid
    this.hasOwnProcess = this.#port.hasOwnProcess
    this.#port.listen({
      heard: message => {
        this.#hear(message)
        this.#work.noteActivity()
      },
      garbled: why => this.#garbled(why),
    })
    this.whenExited = this.#awaitExit()
    this.#watchStart(worker.startTimeoutMs)
    this.#send({ type: 'open', options: { ...worker, identity: this.identity } })
  }

  /** What it was given and has not reported. */
  get work(): Workload {
    return this.#work
  }

  get state() {
    return this.#state
  }

  /** Why this process has killed it; undefined: it has not. */
  get killed(): KillReason | undefined {
    return this.#killed
  }

  /** It was killed, because a task that had begun by then overran a deadline. Of several that ran, it is not known whose own that was. */
  hasOverrun(startedAt = Number.NEGATIVE_INFINITY): boolean {
    if (this.#killed?.kind === 'harakiri') return startedAt + this.#killed.harakiriMs <= this.#killed.at
    return this.#killed?.kind === 'own-deadline' && this.#work.concurrency === 1
  }

  /** True if it can be given tasks: it is ready, has answered the last recall, and all its interpreters are up. */
  get isOpen(): boolean {
    return (
      this.#state === 'ready' &&
      !this.#work.tasks.isRecalling &&
      this.overdue.size === 0 &&
      this.#deadHosts === 0
    )
  }

  /** It can be given tasks, and has none. */
  get isIdle(): boolean {
    return this.isOpen && this.#work.outstanding === 0
  }

  /** The latest time at which it has to be killed; infinite when nothing runs, or when there is no limit. */
  deadlineAt(harakiriMs: number): number {
    const { stillRunsSince } = this.#work
    if (stillRunsSince === undefined || this.#killed !== undefined) return Number.POSITIVE_INFINITY
    return Math.min(
      this.#ownDeadlineAt,
      harakiriMs === 0 ? Number.POSITIVE_INFINITY : stillRunsSince + harakiriMs,
    )
  }

  /** It may have been stopped for so long, as this process was: that is no run time of what runs. What was heard later stays. */
  postpone(ms: number): void {
    this.#ownDeadlineAt = Math.min(this.#ownDeadlineAt + ms, performance.now() + this.#ownDeadlineMs)
    this.#work.postpone(ms)
  }

  signal(number: number): void {
    this.#work.giveSignal(number)
    this.#send({ type: 'signal', number })
  }

  run(refs: readonly Ref[], lastRuns: LastRuns, hints?: SlotHints, { follow, ...turn }: HowGiven = {}): void {
    if (follow !== undefined) this.#work.following += refs.length
    const first = this.#work.giveTasks(refs)
    const sentAtMs = Math.floor(machineNowMs())
    const past = lastRuns.length === 0 ? undefined : { lastRuns }
    const slots = this.#slotNews(refs, hints, follow)
    this.#send({ type: 'run', first, refs, sentAtMs, ...past, ...slots, ...turn })
  }

  /** Nothing while no task waits for a slot. @param hints for these refs */
  #slotNews(
    refs: readonly Ref[],
    hints: SlotHints | undefined,
    follow: string | undefined,
  ): { readonly slots: SlotNews } | undefined {
    const more = follow === undefined ? undefined : { follow }
    if (hints === undefined || hints.queued.length + this.#queued.length === 0)
      return more && { slots: { tries: [], ...more } }
    const { queued } = hints
    const tries = refs.filter(ref => hints.isTry(ref))
    if (queued === this.#queued) return tries.length === 0 ? undefined : { slots: { tries, ...more } }
    this.#queued = queued
    return { slots: { queued, tries, ...more } }
  }

  /** It runs tasks, and dies with one in hand: that one has limits of its own. */
  get isAtWork(): boolean {
    return this.#work.hasWorked && this.#work.tasks.size > 0
  }

  /**
   * For a worker that is silent or slow: recalls the tasks that it has not started. It is given nothing until it has
   * confirmed that.
   *
   * @returns refs that other workers may have at once; none where tasks run in another process, because the worker
   *   then holds claims ahead and has to release them first
   */
  recall(): Ref[] {
    const { tasks, signals } = this.#work
    this.#send({ type: 'recall' })
    if (!this.#answersWhileItRuns) return tasks.recall(signals.size === 0)
    tasks.isRecalling = true
    return []
  }

  /** Asks it to end the run of one task, which it was given under this number. */
  cancel(number: number): void {
    this.#send({ type: 'cancel', number })
  }

  /** It has exited while its interpreter ran another task than this one, or none. */
  isInnocent(number: number): boolean {
    return this.#hostRan !== undefined && this.#hostRan.number !== number
  }

  /** From now on it starts no task that has one of these pairs. Only once it is ready. */
  tellPaused(pairs: readonly PausedPair[]): void {
    this.#send({ type: 'pause', pairs })
  }

  /** Takes no more tasks, finishes what runs, exits. */
  drain(mercyMs: number): void {
    if (this.#state === 'exited') return
    this.#state = 'draining'
    this.#why = 'asked'
    this.#send({ type: 'drain', mercyMs })
  }

  /** It was asked to stop, and its mercy is over. */
  killForMercy(): void {
    this.#why = 'asked'
    this.kill({ kind: 'mercy' })
  }

  /** A cancelled task does not end, and nothing else runs: as planned an exit as that of a worker that recycles. */
  killForCancel(): void {
    this.#leaves('recycled')
    this.kill({ kind: 'cancel' })
  }

  killForOverrun(harakiriMs: number): void {
    const now = performance.now()
    const { concurrency } = this.#work
    this.kill(
      now >= this.#ownDeadlineAt
        ? { kind: 'own-deadline' }
        : { kind: 'harakiri', at: now, harakiriMs, concurrency },
    )
  }

  /** Only the first reason counts. */
  kill(reason: KillReason): void {
    this.#killed ??= reason
    this.#port.kill()
  }

  #send(message: MasterMessage): void {
    this.#port.send(message)
  }

  #hear(message: WorkerMessage): void {
    const { spool, pid } = this
    this.#work.tasks.heard()
    switch (message.type) {
      case 'loading':
        this.#loading = message.name
        return
      case 'ready':
        return this.#isReady(message)
      case 'unloadable':
        return this.#startFailed(new SpooldError('HANDLER_UNLOADABLE', message.error))
      case 'reports':
        return this.#settle(message)
      case 'settling':
        this.#endOwnDeadline()
        return this.#work.tasks.settles(message.number)
      case 'claimed':
        return this.#listener.claimed(this.#work.tasks.claimed(message.claims))
      case 'recalled':
        this.#listener.dropped(this.#work.recalled(message.begun))
        return this.#listener.opened()
      case 'cancelling':
        return this.#work.tasks.of(message.number)?.watcher?.answered(message)
      case 'recycling':
        this.#leaves('recycled')
        return this.#events.emit('worker-recycling', { spool, pid, because: message.because })
      case 'faulted':
      case 'unfit':
        return this.#failed(`worker-${message.type}`, message.error)
      case 'run-began':
      case 'run-ended':
      case 'run-died':
        return // for an application, which has heard them on their way
      case 'done-aside':
        return // it was asked nothing
      case 'drained':
        this.#work.tasks.isOver = true // what crosses this message on its way, it never begins
        return this.#leaves('recycled')
      case 'log': {
        const { type: _, ...said } = message
        return this.#events.emit('task-logged', { spool, pid, ...said })
      }
      case 'output': {
        const { number, stream, text } = message
        const name = this.#work.nameOf(number)
        const isBeside = this.#work.concurrency > 1
        return this.#events.emit('task-printed', { spool, pid, name, stream, text, isBeside })
      }
      case 'signal-news':
      case 'signal-started':
      case 'signal-ended':
      case 'signal-returned':
        return this.#listener.signalled(this, message)
      case 'ask':
        return this.#send(this.#answer(message))
      case 'deadline':
        this.#ownDeadlineMs = message.afterMs === 0 ? Number.POSITIVE_INFINITY : message.afterMs
        this.#ownDeadlineAt = performance.now() + this.#ownDeadlineMs
        return this.#listener.deadline()
      case 'child-started':
        return void this.#programs.set(message.pid, statOf(message.pid)[STARTED])
      case 'child-ended':
        return void this.#programs.delete(message.pid)
      case 'host-page':
        return this.#openPage(quietly(() => new SharedPage(pid, message.fd))) // not Linux, or it has died
      case 'host-died':
        this.#deadHosts++
        return this.#events.emit('host-died', { spool, pid, detail: message.detail })
      case 'host-revived':
        this.#deadHosts--
        return this.#listener.opened()
      case 'stored':
        for (const { path, bytes } of message.tasks) this.#events.emit('request-stored', { path, bytes })
    }
  }

  #isReady({ news, concurrency }: Extract<WorkerMessage, { type: 'ready' }>): void {
    if (this.#state === 'starting') {
      this.#state = 'ready'
      this.#work = new Workload(concurrency, this.#listener.areLeased) // it was given nothing yet
    }
    this.news = news
    this.startCostMs = (this.hasOwnProcess ? treeCpuMsOf(this.pid) : 0) || performance.now() - this.spawnedAt
    this.#started()
  }

  /** Reports a slow start, and gives it up at the timeout. @param timeoutMs 0: no deadline */
  #watchStart(timeoutMs: number): void {
    const { spool, pid } = this
    const slow = () =>
      this.#events.emit('worker-loading', { spool, pid, what: this.#loading, afterMs: SLOW_START_MS })
    const giveUp = () => {
      const error = `${this.#loading} is still loading after ${timeoutMs / 1000} s (spooler-start-timeout)`
      this.#startFailed(new SpooldError('HANDLER_UNLOADABLE', error))
      this.kill({ kind: 'start' })
    }
    const unlessReady = (ms: number, call: () => void) => {
      const end = countDown(ms, call)
      this.whenReady.then(end, end) // not every caller awaits it; a failure is also reported by the exit
    }
    unlessReady(SLOW_START_MS, slow)
    if (timeoutMs > 0) unlessReady(timeoutMs, giveUp)
  }

  /** Something else than the worker itself has written to its descriptor. */
  #garbled(why: string): void {
    this.#failed('worker-unfit', `what came from it cannot be dealt with: ${why}`)
    this.kill({ kind: 'garbled' })
  }

  #failed(event: 'worker-faulted' | 'worker-unfit', error: string): void {
    this.#leaves('faulted')
    this.#events.emit(event, { spool: this.spool, pid: this.pid, error, running: this.#work.running })
  }

  /** It ends of its own accord. Only the first reason counts. */
  #leaves(why: 'recycled' | 'faulted'): void {
    this.#state = 'draining'
    if (this.#why === 'failed') this.#why = why
  }

  #settle(message: Extract<WorkerMessage, { type: 'reports' }>): void {
    const { spool, pid } = this
    const { times, named } = message
    if (times !== undefined) this.#events.emit('run-times', { spool, ...times })
    if (named !== undefined) this.#events.emit('named-runs', { spool, pid, runs: named })
    const before = this.#work.outstanding
    const reported = this.#work.settle(message)
    if (reported.known.size > 0) this.#endOwnDeadline() // a task that set one was announced before
    if (reported.count > 0) this.#listener.reported(this, reported)
    else if (this.#work.outstanding < before) this.#listener.opened() // it has released what was recalled
    const isNews = message.started.length > 0 && this.#work.activity.isSorting
    for (const number of message.started) {
      const name = this.#work.started(number)
      if (name !== undefined) this.#events.emit('task-started', { spool, pid, name })
    }
    if (isNews) this.#listener.opened() // from now on it counts as busy, which may make the pool grow
  }

  /** Where several run, the worker tells it when it is over. */
  #endOwnDeadline(): void {
    if (this.#work.concurrency === 1) this.#ownDeadlineAt = Number.POSITIVE_INFINITY
  }

  async #awaitExit(): Promise<Exit> {
    const exit = await this.#port.whenExited
    this.#killPrograms()
    const page = this.#page
    if (page !== undefined) this.#hostRan = quietly(() => ({ number: page.stop() }))
    this.#openPage(undefined)
    const { unforked } = exit
    const why =
      unforked === undefined
        ? `the worker ${howOf(exit)} before it was ready`
        : `no worker could be forked: ${unforked}`
    this.#startFailed(new SpooldError('START_FAILED', why))
    this.#state = 'exited'
    return { ...exit, why: this.#why }
  }

  /** @param page undefined: there is none any more */
  #openPage(page: SharedPage | undefined): void {
    this.#page?.close()
    this.#page = page
  }

  #killPrograms(): void {
    for (const [pid, startTime] of this.#programs)
      if (startTime !== undefined && startTime === statOf(pid)[STARTED])
        try {
          process.kill(-pid, 'SIGKILL')
        } catch {}
    this.#programs.clear()
  }
}
