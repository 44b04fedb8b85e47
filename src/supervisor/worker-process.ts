import type { ChildProcess } from 'node:child_process'
import { SpooldError } from '../base/errors.js'
import {
  eachReport,
  type LastRuns,
  type MasterMessage,
  type SignalMessage,
  type WorkerMessage,
} from '../ipc/messages.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { SignalNews } from '../task/schedule.js'
import { childExit } from './child-exit.js'
import { forkWorker, type SpawnOptions } from './fork-worker.js'
import { GivenSignals } from './given-signals.js'
import { GivenTasks } from './given-tasks.js'
import { type HostListener, HostMessages } from './host-messages.js'

export interface Reported {
  readonly reports: readonly Report[]
  /** Of refs that were taken back from it: they tell what it did, but not where the ref is now. */
  readonly late: readonly Report[]
  /** Those whose start was told before. */
  readonly known: ReadonlySet<Ref>
}

export interface WorkerListener extends HostListener {
  ready(worker: WorkerProcess, news: readonly SignalNews[]): void
  signalled(worker: WorkerProcess, message: SignalMessage): void
  reported(worker: WorkerProcess, reported: Reported): void
  started(worker: WorkerProcess, ref: Ref): void
  recycling(worker: WorkerProcess, tasks: number): void
  faulted(worker: WorkerProcess, error: string): void
  logged(worker: WorkerProcess, name: string, message: string): void
}

/** How it ended; both null when it could not even be forked. */
export interface Exit {
  readonly code: number | null
  readonly signal: string | null
  /** It was asked to, or said so before. */
  readonly wasExpected: boolean
}

/**
 * One worker process, as the master sees it.
 *
 * States: starting → ready → draining (takes no more, exits when it is done) → exited.
 */
export class WorkerProcess {
  readonly #child: ChildProcess
  readonly #listener: WorkerListener
  readonly #given: GivenTasks
  readonly #hosts: HostMessages
  /** Its tasks run in another process, so it hands back at once what is not started. */
  readonly #answersWhileItRuns: boolean
  #state: 'starting' | 'ready' | 'draining' | 'exited' = 'starting'
  /** Milliseconds a task takes; undefined until the first report. */
  #paceMs: number | undefined
  #hasWorked = false
  #isKilled = false
  #lastHeardAt = performance.now()
  readonly spawnedAt = performance.now()
  readonly spool: string
  readonly signals = new GivenSignals()
  readonly pid: number
  /** Rejects with a SpooldError when it cannot load its handlers, or dies before it could. */
  readonly whenReady: Promise<void>
  /** Resolves after its last message was heard. */
  readonly whenExited: Promise<Exit>
  #settleReady: { resolve(): void; reject(error: SpooldError): void } = { resolve() {}, reject() {} }

  constructor(options: SpawnOptions, listener: WorkerListener) {
    const { worker, answer } = options
    this.#listener = listener
    this.#hosts = new HostMessages({ listener, answer, send: message => this.#send(message) })
    this.#answersWhileItRuns = worker.chain.length === 1 && worker.chain[0]?.kind === 'host'
    this.spool = worker.spool
    this.#given = new GivenTasks(worker.concurrency)
    this.#child = forkWorker(options)
    this.pid = this.#child.pid ?? 0
    this.#child.on('message', message => this.#hear(message as WorkerMessage))
    this.whenReady = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject }
    })
    this.whenReady.catch(() => {}) // who does not wait for it hears of the exit
    this.whenExited = this.#awaitExit()
    this.#send({ type: 'open', options: worker })
  }

  get state() {
    return this.#state
  }

  get paceMs(): number | undefined {
    return this.#paceMs
  }

  /** It has come to a task. */
  get hasWorked(): boolean {
    return this.#hasWorked
  }

  /** What it has and still answers for. */
  get outstanding(): number {
    return this.#given.size + this.signals.size
  }

  /** When the longest-running task began at the latest; undefined when nothing runs. */
  get runningSince(): number | undefined {
    const told = [this.signals.runningSince, this.#given.runningSince].filter(since => since !== undefined)
    if (told.length > 0) return Math.min(...told)
    return this.outstanding > 0 ? this.#lastHeardAt : undefined
  }

  /** When it is to be killed at the latest; infinite when nothing runs, or may run for ever. */
  deadlineAt(harakiriMs: number): number {
    const { runningSince } = this
    if (runningSince === undefined || this.#isKilled) return Number.POSITIVE_INFINITY
    return Math.min(
      this.#hosts.deadlineAt,
      harakiriMs === 0 ? Number.POSITIVE_INFINITY : runningSince + harakiriMs,
    )
  }

  get isPastOwnDeadline(): boolean {
    return performance.now() >= this.#hosts.deadlineAt
  }

  get lastHeardAt(): number {
    return this.#lastHeardAt
  }

  signal(number: number): void {
    if (this.outstanding === 0) this.#lastHeardAt = performance.now()
    this.signals.give(number)
    this.#send({ type: 'signal', number })
  }

  run(refs: readonly Ref[], lastRuns: LastRuns): void {
    if (this.#given.size === 0) this.#lastHeardAt = performance.now()
    const first = this.#given.give(refs)
    this.#send({ type: 'run', first, refs, ...(lastRuns.length === 0 ? {} : { lastRuns }) })
  }

  /** Of a worker that is silent: what it has not started, to be given to others. The claim decides if both try. */
  takeBack(): Ref[] {
    const refs = this.#answersWhileItRuns ? [] : this.#given.takeBack(this.signals.size === 0)
    if (refs.length > 0 || this.#answersWhileItRuns) this.#send({ type: 'hand-back' })
    return refs
  }

  /** What it still had when it ended. */
  get left(): readonly Ref[] {
    return this.#given.left
  }

  /** What of it may have begun, and since when at the latest. */
  get begun(): ReadonlyArray<{ readonly ref: Ref; readonly startedAt: number }> {
    return this.#given.begun(this.#lastHeardAt)
  }

  /** Takes no more, finishes what runs, exits. */
  drain(mercyMs: number): void {
    if (this.#state === 'exited') return
    this.#state = 'draining'
    this.#send({ type: 'drain', mercyMs })
  }

  kill(): void {
    this.#isKilled = true
    this.#child.kill('SIGKILL')
  }

  #send(message: MasterMessage): void {
    if (this.#child.connected) this.#child.send(message, () => {})
  }

  #hear(message: WorkerMessage): void {
    this.#lastHeardAt = performance.now()
    switch (message.type) {
      case 'ready':
        if (this.#state === 'starting') this.#state = 'ready'
        this.#listener.ready(this, message.news)
        return this.#settleReady.resolve()
      case 'unloadable':
        return this.#settleReady.reject(new SpooldError('HANDLER_UNLOADABLE', message.error))
      case 'reports':
        return this.#settle(message)
      case 'recycling':
        this.#state = 'draining'
        return this.#listener.recycling(this, message.tasks)
      case 'faulted':
        this.#state = 'draining'
        return this.#listener.faulted(this, message.error)
      case 'drained':
        this.#state = 'draining'
        return
      case 'log':
        return this.#listener.logged(this, message.name, message.message)
      case 'signal-news':
      case 'signal-started':
      case 'signal-ended':
      case 'signal-returned':
        return this.#listener.signalled(this, message)
      default:
        return this.#hosts.hear(message, this.pid)
    }
  }

  #settle(message: Extract<WorkerMessage, { type: 'reports' }>): void {
    this.#hasWorked = true
    const known = new Set<Ref>()
    const reports: Report[] = []
    const late: Report[] = []
    eachReport(message, (number, report) => {
      const given = this.#given.end(number)
      if (given === undefined) return
      if (given.startedAt !== undefined) known.add(given.ref)
      const list = given.isTakenBack ? late : reports
      list.push({ ref: given.ref, ...report })
    })
    if (known.size > 0) this.#hosts.taskEnded() // it was told of before it set a deadline
    this.#notePace(message.busyMs, message.packed.length / 3)
    if (reports.length + late.length > 0) this.#listener.reported(this, { reports, late, known })
    for (const number of message.started) {
      const ref = this.#given.start(number, this.#lastHeardAt)
      if (ref !== undefined) this.#listener.started(this, ref)
    }
  }

  #notePace(busyMs: number, tasks: number): void {
    if (tasks === 0) return
    const paceMs = busyMs / tasks
    this.#paceMs = this.#paceMs === undefined ? paceMs : (this.#paceMs + paceMs) / 2
  }

  async #awaitExit(): Promise<Exit> {
    const [code, signal] = await childExit(this.#child)
    this.#hosts.workerExited()
    const wasExpected = this.#state === 'draining'
    this.#state = 'exited'
    const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
    this.#settleReady.reject(new SpooldError('START_FAILED', `the worker ${how} before it was ready`))
    return { code, signal, wasExpected }
  }
}
