import type { Emitter } from '../../events/emitter.js'
import type { WatchChoice } from '../../files/directory-watch.js'
import { type ClaimedTask, Claims } from '../../spool/claims/claims.js'
import { Scanner, type ScannerOptions } from '../../spool/index/scanner.js'
import { TaskIndex } from '../../spool/index/task-index.js'
import { type Locker, type LockKind, openLocker } from '../../spool/locker.js'
import type { NameRules } from '../../spool/names.js'
import { writeTask } from '../../spool/store/write.js'
import type { Delivery } from '../../task/delivery.js'
import type { LastRun } from '../../task/last-run.js'
import type { Company, Outcome } from '../../task/outcome.js'
import { type Ref, toByteString } from '../../task/ref.js'
import type { Report } from '../../task/report.js'
import type { Request } from '../../task/request.js'
import type { RetryPolicy } from '../../task/retry-policy.js'
import type { Counts, Engine } from '../engine.js'
import { LongLocks } from './long-locks.js'

export interface DirectoryEngineOptions {
  /** The spool's real path. */
  readonly spool: string
  readonly rules: NameRules
  /** How often the directory is looked at without being asked, and how long a retry waits. */
  readonly frequencyMs: number
  readonly watch: WatchChoice
  readonly locks: LockKind
  readonly policy: RetryPolicy
  readonly delivery: Delivery
  /** So long may a file be malformed or unfinished before it is buried. */
  readonly graceMs: number
  /** The handler files, for whoever reads a dead letter. */
  readonly handlers: readonly string[]
}

/** Tasks as files in a directory: uWSGI's spool. */
export class DirectoryEngine implements Engine {
  readonly #options: DirectoryEngineOptions
  readonly #spool: string
  readonly #claims: Claims
  readonly #index: TaskIndex
  readonly #events: Emitter
  readonly #longLocks: LongLocks
  readonly #scanning: { -readonly [Key in keyof ScannerOptions]: ScannerOptions[Key] }
  #scanner: Scanner | undefined
  #wakeUp = () => {}

  private constructor(options: DirectoryEngineOptions, locker: Locker, events: Emitter) {
    this.#options = options
    this.#spool = toByteString(options.spool)
    this.#events = events
    const { rules, frequencyMs, watch } = options
    this.#scanning = { spool: this.#spool, rules, frequencyMs, watch }
    this.#claims = new Claims({ ...options, spool: this.#spool }, locker)
    this.#longLocks = new LongLocks(this.#spool, events)
    this.#index = new TaskIndex({ ordered: options.rules.ordered, frequencyMs: options.frequencyMs })
  }

  static async open(options: DirectoryEngineOptions, events: Emitter): Promise<DirectoryEngine> {
    return new DirectoryEngine(options, await openLocker(options.spool, options.locks), events)
  }

  async enqueue(request: Request): Promise<string> {
    return (await writeTask(request, { spool: this.#spool, sync: true })).path
  }

  due(limit: number): readonly Ref[] {
    return this.#index.take(limit)
  }

  done(refs: readonly Ref[]): void {
    for (const ref of refs) this.#index.done(ref)
    this.#scanner?.tasksEnded(refs.length, false)
  }

  returned(reports: readonly Report[]): void {
    const nowMs = Date.now()
    for (const report of reports) {
      this.#index.returned(report, nowMs)
      this.#longLocks.reported(report)
    }
    const isAnyGone = reports.some(({ kind }) => kind === 'gone')
    this.#scanner?.tasksEnded(reports.length, isAnyGone)
  }

  abandoned(refs: readonly Ref[]): void {
    for (const ref of refs) this.#index.abandoned(ref)
  }

  async onWakeUp(wakeUp: () => void): Promise<void> {
    this.#wakeUp = wakeUp
    this.#scanner = new Scanner(this.#scanning, this.#index, this.#events, wakeUp)
    await this.#scanner.start()
  }

  /** Where the directory is watched, an event tells it. */
  stored(ref: Ref): void {
    const { watch, rules } = this.#options
    const isVisited = rules.ordered || !ref.includes('/')
    if (watch === 'off' && isVisited && this.#index.changed(ref, true)) this.#wakeUp()
  }

  setFrequency(frequencyMs: number | null): void {
    this.#scanning.frequencyMs = frequencyMs ?? this.#options.frequencyMs
    this.#scanner?.scanNow()
  }

  scanNow(): void {
    this.#scanner?.scanNow()
  }

  counts(): Counts {
    return { ready: this.#index.ready, busy: this.#index.busy, waiting: this.#index.waiting }
  }

  get isDrained(): boolean {
    return this.#scanner?.isDrained ?? false
  }

  claim(ref: Ref, lastRun?: LastRun): ClaimedTask | Report {
    return this.#claims.claim(ref, lastRun)
  }

  begin(claim: ClaimedTask, company: Company): Report | undefined {
    return this.#claims.begin(claim, company)
  }

  settle(claim: ClaimedTask, outcome: Outcome, ranMs: number): Report {
    return this.#claims.settle(claim, outcome, ranMs)
  }

  release(claim: ClaimedTask): Report {
    return this.#claims.release(claim)
  }

  close(): void {
    this.#wakeUp = () => {}
    this.#scanner?.close()
  }
}
