import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { SpooldError } from '../base/errors.js'
import {
  eachReport,
  type LastRuns,
  type MasterMessage,
  type SignalMessage,
  type WorkerMessage,
  type WorkerOptions,
} from '../ipc/messages.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { SignalNews } from '../task/schedule.js'
import { childExit } from './child-exit.js'
import { GivenSignals } from './given-signals.js'
import { GivenTasks } from './given-tasks.js'

const STDERR = 2
const ENTRY = fileURLToPath(new URL('../worker/main.js', import.meta.url))

/** How a worker process is started, besides what it is told. */
export interface SpawnOptions {
  readonly worker: WorkerOptions
  /** When the master stays root and its workers do not (master-as-root). */
  readonly uid?: number
  readonly gid?: number
  /** Where its output goes, and that of the handlers. */
  readonly logFd: number
}

export interface Reported {
  readonly reports: readonly Report[]
  /** Of refs that were taken back from it: they tell what it did, but not where the ref is now. */
  readonly late: readonly Report[]
  /** Those whose start was told before. */
  readonly known: ReadonlySet<Ref>
}

export interface WorkerListener {
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
  #state: 'starting' | 'ready' | 'draining' | 'exited' = 'starting'
  /** Milliseconds a task takes; undefined until the first report. */
  #paceMs: number | undefined
  #hasWorked = false
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

  constructor({ worker, uid, gid, logFd }: SpawnOptions, listener: WorkerListener) {
    this.#listener = listener
    this.spool = worker.spool
    this.#given = new GivenTasks(worker.concurrency)
    this.#child = fork(ENTRY, [], {
      stdio: ['ignore', logFd === STDERR ? 'inherit' : logFd, logFd, 'ipc'],
      execArgv: process.execArgv.filter(arg => !arg.startsWith('--inspect')),
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
    })
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
    const refs = this.#given.takeBack(this.signals.size === 0)
    if (refs.length > 0) this.#send({ type: 'hand-back' })
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
      default:
        return this.#listener.signalled(this, message)
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
    const wasExpected = this.#state === 'draining'
    this.#state = 'exited'
    const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
    this.#settleReady.reject(new SpooldError('START_FAILED', `the worker ${how} before it was ready`))
    return { code, signal, wasExpected }
  }
}
