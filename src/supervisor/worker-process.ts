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

/** A ref that the worker has. `startedAt` is told, or undefined; on the clock of `performance.now()`. */
interface Given {
  readonly ref: Ref
  startedAt: number | undefined
  /** Taken back from a silent worker, and given to another: what this one still says of it does not count. */
  isTakenBack: boolean
}

/**
 * One worker process, as the master sees it.
 *
 * States: starting → ready → draining (takes no more, exits when it is done) → exited.
 */
export class WorkerProcess {
  readonly #child: ChildProcess
  readonly #listener: WorkerListener
  readonly #given = new Map<number, Given>()
  #state: 'starting' | 'ready' | 'draining' | 'exited' = 'starting'
  #nextNumber = 0
  #takenBack = 0
  /** Milliseconds a task takes; undefined until the first report. */
  #paceMs: number | undefined
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

  /** What it has and still answers for. */
  get outstanding(): number {
    return this.#given.size - this.#takenBack + this.signals.size
  }

  /** When the longest-running task began at the latest; undefined when nothing runs. */
  get runningSince(): number | undefined {
    let earliest = this.signals.runningSince
    for (const { startedAt } of this.#given.values())
      if (startedAt !== undefined) earliest = Math.min(earliest ?? startedAt, startedAt)
    return earliest ?? (this.outstanding > 0 ? this.#lastHeardAt : undefined)
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
    const first = this.#nextNumber
    for (const ref of refs)
      this.#given.set(this.#nextNumber++, { ref, startedAt: undefined, isTakenBack: false })
    this.#send({ type: 'run', first, refs, ...(lastRuns.length === 0 ? {} : { lastRuns }) })
  }

  /** Of a worker that is silent: what it has not started, to be given to others. The claim decides if both try. */
  takeBack(): Ref[] {
    const refs: Ref[] = []
    let isFirst = this.signals.size === 0 // in a sequential worker the first is what it runs, told or not
    for (const given of this.#given.values()) {
      if (given.startedAt === undefined && !given.isTakenBack && !isFirst) {
        given.isTakenBack = true
        refs.push(given.ref)
      }
      isFirst = false
    }
    this.#takenBack += refs.length
    if (refs.length > 0) this.#send({ type: 'hand-back' })
    return refs
  }

  /** What it still had when it ended. `startedAt` as far as it was told. */
  get left(): ReadonlyArray<{ readonly ref: Ref; readonly startedAt: number | undefined }> {
    return [...this.#given.values()].filter(given => !given.isTakenBack)
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
    const known = new Set<Ref>()
    const reports: Report[] = []
    const late: Report[] = []
    eachReport(message, (number, report) => {
      const given = this.#given.get(number)
      if (given === undefined) return
      this.#given.delete(number)
      if (given.startedAt !== undefined) known.add(given.ref)
      if (given.isTakenBack) this.#takenBack--
      const list = given.isTakenBack ? late : reports
      list.push({ ref: given.ref, ...report })
    })
    this.#notePace(message.busyMs, message.packed.length / 3)
    if (reports.length + late.length > 0) this.#listener.reported(this, { reports, late, known })
    for (const number of message.started) {
      const given = this.#given.get(number)
      if (given === undefined) continue
      given.startedAt = this.#lastHeardAt
      this.#listener.started(this, given.ref)
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
