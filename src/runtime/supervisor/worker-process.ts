import { countDown } from '../../base/clock.js'
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

/** How tasks are given, if they are not simply the next due ones. */
export interface HowGiven extends Pick<GivenRun, 'isTheirTurn'> {
  /** The name that all of the tasks have: they may wait in the worker until its running tasks of that name end. */
  readonly follow?: string
}

/** The giver of tasks, as its workers see it. */
export interface WorkerListener {
  /** The worker's claims are leases. */
  readonly areLeased: boolean
  /** The worker can take tasks again. */
  opened(): void
  /** The running task has set itself another deadline. */
  deadline(): void
  signalled(worker: WorkerProcess, message: SignalMessage): void
  reported(worker: WorkerProcess, reported: Reported): void
  /** The worker has claimed these refs and announced that. */
  claimed(refs: readonly Ref[]): void
}

/**
 * The master's view of one worker process.
 *
 * States: starting → ready → draining (takes no more tasks, exits when it is done) → exited.
 */
export class WorkerProcess {
  readonly #port: WorkerPort
  readonly #listener: WorkerListener
  readonly #events: Emitter
  readonly #answer: SpawnOptions['answer']
  #state: 'starting' | 'ready' | 'draining' | 'exited' = 'starting'
  /** Why the worker will have ended, as far as is known before its exit: what it said itself, or that it was asked to end. */
  #why: Exit['why'] = 'failed'
  #killed: KillReason | undefined
  /** The names whose tasks wait for slots, as the worker was last told. */
  #queued: readonly string[] = []
  readonly spawnedAt = performance.now()
  /** What the worker is loading; a text for people. */
  #loading = 'the worker'
  /** The processor time of the worker's start, or its duration where that time is unknown; 0 until the worker is ready. */
  startCostMs = 0
  /** What the handlers declared about signals while they were loaded. */
  news: readonly SignalNews[] = []
  #started = () => {}
  #startFailed: (error: SpooldError) => void = () => {}
  /** Rejects with a SpooldError if the worker cannot load its handlers or exits before it is ready. */
  readonly whenReady = new Promise<void>((resolve, reject) => {
    this.#started = resolve
    this.#startFailed = reject
  })
  readonly spool: string
  #work: Workload
  /**
   * The programs that the worker runs for its tasks, with their start times. Each leads its own process group. When the worker is
   * killed, they are killed before its tasks are given to other workers, or a task would run twice at once.
   */
  readonly #programs = new Map<number, string | undefined>()
  /** The first of the deadlines that running tasks set for themselves (`uwsgi.set_user_harakiri`). */
  #ownDeadlineAt = Number.POSITIVE_INFINITY
  /** How long after it was set `#ownDeadlineAt` is. */
  #ownDeadlineMs = Number.POSITIVE_INFINITY
  /** The number of the worker's interpreters that have died and are not replaced yet: a task would have to wait for that. */
  #deadHosts = 0
  /** The page of states that the worker shares with its interpreter. */
  #page: SharedPage | undefined
  /** The task that the interpreter was running when the worker exited (`number` undefined: none); undefined: that is not known. */
  #hostRan: { readonly number: number | undefined } | undefined
  /** The cancelled tasks that do not end: the worker is given nothing more, and is killed as soon as it runs nothing else. */
  readonly overdue = new Set<number>()
  /**
   * Unique among the workers of all machines: two random numbers and the time. They are not drawn by node:crypto, which would add
   * some milliseconds to each start.
   */
  readonly identity = [drawToken(), drawToken(), Date.now()].map(part => part.toString(36)).join('-')
  readonly pid: number
  /** @see Roster.numberOf; undefined until somebody asks for it */
  number: number | undefined
  readonly hasOwnProcess: boolean
  /** Resolves after the worker's last message was received. */
  readonly whenExited: Promise<Exit>

  /** @throws when the system has no memory for another process */
  constructor(options: SpawnOptions, listener: WorkerListener, events: Emitter) {
    const { worker, answer } = options
    const { spool } = worker
    this.#listener = listener
    this.#events = events
    this.#answer = answer
    this.spool = spool
    this.#port = options.openPort()
    this.#work = new Workload(this.#port.marks, 1, listener.areLeased)
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

  /** What the worker was given and has not reported. */
  get work(): Workload {
    return this.#work
  }

  get state() {
    return this.#state
  }

  /** Why this process killed the worker; undefined: it did not. */
  get killed(): KillReason | undefined {
    return this.#killed
  }

  /**
   * True if the worker was killed for a deadline that a task with this start time overran; without a time, for any deadline. False for
   * a task's own deadline where several tasks ran, because it is unknown whose deadline that was.
   */
  hasOverrun(startedAt = Number.NEGATIVE_INFINITY): boolean {
    if (this.#killed?.kind === 'harakiri') return startedAt + this.#killed.harakiriMs <= this.#killed.at
    return this.#killed?.kind === 'own-deadline' && this.#work.concurrency === 1
  }

  /** True if the worker can be given tasks: it is ready, has answered the last recall, and all its interpreters are up. */
  get isOpen(): boolean {
    return (
      this.#state === 'ready' &&
      !this.#work.tasks.isRecalling &&
      this.overdue.size === 0 &&
      this.#deadHosts === 0
    )
  }

  /** True if the worker can be given tasks and has none. */
  get isIdle(): boolean {
    return this.isOpen && this.#work.outstanding === 0
  }

  /** When the worker has to be killed for a deadline; infinite when nothing runs or there is no limit. */
  deadlineAt(harakiriMs: number): number {
    const never = Number.POSITIVE_INFINITY
    const limitMs = harakiriMs === 0 ? never : harakiriMs
    if (this.#killed !== undefined || Math.min(limitMs, this.#ownDeadlineAt) === never) return never
    const since = this.#work.stillRunsSince
    return since === undefined ? never : Math.min(this.#ownDeadlineAt, since + limitMs)
  }

  /** Moves deadlines and starts by `ms`: this process was stopped for so long, and the worker may have been, too. */
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
    const numbers = this.#work.giveTasks(refs)
    const past = lastRuns.length === 0 ? undefined : { lastRuns }
    const slots = this.#slotNews(refs, hints, follow)
    this.#send({ type: 'run', numbers, refs, ...past, ...slots, ...turn })
  }

  /** @param hints for these refs @returns undefined while no task waits for a slot */
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

  /** True if the worker has run tasks and now has some: if it dies, the limit of crashes per task applies, not the respawn pace. */
  get isAtWork(): boolean {
    return this.#work.hasWorked && this.#work.tasks.size > 0
  }

  /**
   * Takes back the tasks that the worker has not taken, for other workers. What it has taken and not begun, as for an
   * interpreter, it hands back in time. It is given nothing until it has answered.
   *
   * @param isAll false leaves one task to a worker that has taken none, which may only wait for a processor
   */
  withdraw(isAll: boolean): Ref[] {
    const { tasks, signals } = this.#work
    if (!tasks.isRecalling) this.#send({ type: 'recall' })
    tasks.isRecalling = true
    const refs = tasks.withdraw(!isAll && signals.size === 0)
    this.#work.noteActivity()
    return refs
  }

  /** Asks the worker to end the run of one task, which it was given under this number. */
  cancel(number: number): void {
    this.#send({ type: 'cancel', number })
  }

  /** True if the worker exited while its interpreter ran another task than this one, or none. */
  isInnocent(number: number): boolean {
    return this.#hostRan !== undefined && this.#hostRan.number !== number
  }

  /** From now on the worker starts no task that has one of these pairs. Call it only once the worker is ready. */
  tellPaused(pairs: readonly PausedPair[]): void {
    this.#send({ type: 'pause', pairs })
  }

  /** Has the worker take no more tasks, finish what runs, and exit. */
  drain(mercyMs: number): void {
    if (this.#state === 'exited') return
    this.#state = 'draining'
    this.#why = 'asked'
    this.#send({ type: 'drain', mercyMs })
  }

  /** Kills a worker that was asked to stop and whose mercy is over. */
  killForMercy(): void {
    this.#why = 'asked'
    this.kill({ kind: 'mercy' })
  }

  /** Kills a worker whose only running task was cancelled and does not end. Such an exit is as planned as a worker's recycling. */
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
      case 'claimed':
        return this.#listener.claimed(this.#work.tasks.claimed(message.claims))
      case 'recalled':
        this.#work.tasks.isRecalling = false
        this.#work.following = 0
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
        return // a worker of tasks is never asked to look aside
      case 'drained':
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
      this.#work = new Workload(this.#port.marks, concurrency, this.#listener.areLeased) // the worker was given nothing yet
    }
    this.news = news
    this.startCostMs = (this.hasOwnProcess ? treeCpuMsOf(this.pid) : 0) || performance.now() - this.spawnedAt
    this.#started()
  }

  /** Reports a slow start, and kills the worker at the timeout. @param timeoutMs 0: no deadline */
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

  /** Kills the worker, because a frame from its descriptor cannot be one of ours: other code has written to it. */
  #garbled(why: string): void {
    this.#failed('worker-unfit', `what came from it cannot be dealt with: ${why}`)
    this.kill({ kind: 'garbled' })
  }

  #failed(event: 'worker-faulted' | 'worker-unfit', error: string): void {
    this.#leaves('faulted')
    this.#events.emit(event, { spool: this.spool, pid: this.pid, error, running: this.#work.running })
  }

  /** Notes that the worker ends of its own accord. Only the first reason counts. */
  #leaves(why: 'recycled' | 'faulted'): void {
    this.#state = 'draining'
    if (this.#why === 'failed') this.#why = why
  }

  #settle(message: Extract<WorkerMessage, { type: 'reports' }>): void {
    const { spool, pid } = this
    const { times, named } = message
    if (times !== undefined) this.#events.emit('run-times', { spool, ...times })
    if (named !== undefined) this.#events.emit('named-runs', { spool, pid, runs: named })
    const reported = this.#work.settle(message)
    if (reported.count > 0) this.#listener.reported(this, reported)
    const isNews = message.started.length > 0 && this.#work.activity.isSorting
    for (const number of message.started) {
      const name = this.#work.started(number)
      if (name !== undefined) this.#events.emit('task-started', { spool, pid, name })
    }
    if (isNews) this.#listener.opened() // the worker counts as busy from now on, which may make the pool grow
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

  /** @param page undefined: the worker has none any more */
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
