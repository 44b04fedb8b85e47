import { SpooldError, toError } from '../base/errors.js'
import type { Emitter } from '../events/emitter.js'
import { claimFile, type FileClaim, readBody } from '../spool/claim.js'
import type { NameRules } from '../spool/file-name.js'
import { type Locker, type LockKind, openLocker } from '../spool/lock.js'
import { crashDelayMs, Records, type TaskRecord, withFailure } from '../spool/records.js'
import { Scanner } from '../spool/scanner.js'
import { leaveAsFound, postpone, release, removeTask, type Settled } from '../spool/settle.js'
import { DONE, RECORDED, STARTED, SUSPECT, writeState } from '../spool/state-byte.js'
import { TaskIndex } from '../spool/task-index.js'
import type { WatchChoice } from '../spool/watch.js'
import { writeTask } from '../spool/write.js'
import type { Outcome } from '../task/outcome.js'
import { type Ref, toByteString } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { Request } from '../task/request.js'
import type { Claim, Counts, Engine } from './engine.js'

export interface DirectoryEngineOptions {
  /** The spool's real path. */
  readonly spool: string
  readonly rules: NameRules
  /** How often the directory is looked at without being asked, and how long a retry waits. */
  readonly frequencyMs: number
  readonly watch: WatchChoice
  readonly locks: LockKind
  /** A read shows in the atime, and so marks a start. */
  readonly marksReads: boolean
}

/** A task file in hand, with what its record says. */
class DirectoryClaim implements Claim {
  readonly file: FileClaim
  readonly record: TaskRecord | undefined
  /** The state byte says that it runs. */
  isMarked: boolean
  #body: Buffer | undefined
  /** From then on `fd` is closed and may be another file's number. */
  isSettled = false

  constructor(file: FileClaim, record: TaskRecord | undefined, isMarked: boolean) {
    this.file = file
    this.record = record
    this.isMarked = isMarked
    this.#body = file.body
  }

  get ref(): Ref {
    return this.file.ref
  }

  get vars() {
    return this.file.vars
  }

  get dueAtMs(): number {
    return this.file.dueAtMs
  }

  get attempt(): number {
    return (this.record?.attempts ?? 0) + 1
  }

  get hasBody(): boolean {
    return this.file.bodyBytes > 0
  }

  readBody(): Buffer | undefined {
    if (this.#body !== undefined || this.file.bodyBytes === 0) return this.#body
    if (this.isSettled)
      throw new SpooldError('CLAIM_LOST', `the body of ${this.ref} was asked for after its run had ended`)
    this.#body = readBody(this.file.fd, this.file.bodyOffset, this.file.bodyBytes)
    return this.#body
  }
}

/** Tasks as files in a directory: uWSGI's spool. */
export class DirectoryEngine implements Engine {
  readonly #options: DirectoryEngineOptions
  readonly #spool: string
  readonly #locker: Locker
  readonly #records: Records
  readonly #index: TaskIndex
  readonly #events: Emitter
  #scanner: Scanner | undefined

  private constructor(options: DirectoryEngineOptions, locker: Locker, events: Emitter) {
    this.#options = options
    this.#spool = toByteString(options.spool)
    this.#locker = locker
    this.#events = events
    this.#records = new Records(this.#spool)
    this.#index = new TaskIndex({ ordered: options.rules.ordered, frequencyMs: options.frequencyMs })
  }

  static async open(options: DirectoryEngineOptions, events: Emitter): Promise<DirectoryEngine> {
    return new DirectoryEngine(options, await openLocker(options.spool, options.locks), events)
  }

  enqueue(request: Request): Promise<string> {
    return writeTask(request, { spool: this.#spool, sync: true })
  }

  due(limit: number): readonly Ref[] {
    return this.#index.take(limit)
  }

  returned(reports: readonly Report[]): void {
    const nowMs = Date.now()
    for (const report of reports) this.#index.returned(report, nowMs)
    this.#scanner?.tasksEnded(reports.length)
  }

  abandoned(refs: readonly Ref[]): void {
    for (const ref of refs) this.#index.abandoned(ref)
  }

  async onWakeUp(wakeUp: () => void): Promise<void> {
    const { rules, frequencyMs, watch } = this.#options
    this.#scanner = new Scanner(
      { spool: this.#spool, rules, frequencyMs, watch },
      this.#index,
      this.#events,
      wakeUp,
    )
    await this.#scanner.start()
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

  claim(ref: Ref, isBlameless = false): DirectoryClaim | Report {
    const nowMs = Date.now()
    const file = claimFile(ref, `${this.#spool}/${ref}`, this.#locker, nowMs)
    if (!('fd' in file)) return { ref, ranMs: 0, ...file }
    try {
      return file.state === 0 ? this.#start(file, undefined) : this.#resume(file, nowMs, isBlameless)
    } catch (error) {
      // what cannot be marked as started is not started
      release(file, this.#locker)
      return { ref, ranMs: 0, kind: 'unreadable', detail: toError(error).message }
    }
  }

  /** Leaves a mark that outlives every process before the task is handed out: the kernel's own, or our byte. */
  #start(file: FileClaim, record: TaskRecord | undefined): DirectoryClaim {
    const { marksReads } = this.#options
    if (marksReads && file.wasUnread && file.state === 0) return new DirectoryClaim(file, record, false)
    const claim = new DirectoryClaim(file, record, false)
    this.#mark(claim, marksReads && file.wasRead && record === undefined)
    return claim
  }

  mark(claim: DirectoryClaim): void {
    if (claim.isMarked) return
    try {
      this.#mark(claim, false)
    } catch {} // it runs already, and the kernel's mark still stands
  }

  #mark(claim: DirectoryClaim, isSuspect: boolean): void {
    const { file, record } = claim
    writeState(file.fd, STARTED | (isSuspect ? SUSPECT : 0) | (record === undefined ? 0 : RECORDED))
    claim.isMarked = true
  }

  /** The file has a past: an earlier run failed, took its process with it, or could not be cleared away. */
  #resume(file: FileClaim, nowMs: number, isBlameless: boolean): DirectoryClaim | Report {
    const { ref } = file
    if ((file.state & DONE) !== 0) {
      const settled = removeTask(file)
      release(file, this.#locker)
      return { ref, ranMs: 0, ...settled, kind: settled.kind === 'ok' ? 'gone' : settled.kind }
    }
    const record = this.#records.read(ref)
    if ((file.state & STARTED) === 0 || isBlameless) return this.#start(file, record)
    // nobody holds it, and yet a run began: its runner died, whoever that was
    const crashes = (file.state & SUSPECT) === 0 ? 1 : 2
    const nextRunAt = nowMs + crashDelayMs((record?.crashes ?? 0) + crashes, this.#options.frequencyMs)
    const crashed = withFailure(record, { nowMs, crashes, error: 'the process that ran it died', nextRunAt })
    this.#tryRecord(ref, crashed)
    if (nextRunAt <= nowMs) return this.#start(file, crashed)
    postpone(file, nextRunAt, true)
    release(file, this.#locker)
    return { ref, ranMs: 0, kind: 'later', atMs: nextRunAt }
  }

  /** A full disk costs the record, not the task. */
  #tryRecord(ref: Ref, record: TaskRecord): boolean {
    try {
      this.#records.write(ref, record)
      return true
    } catch {
      return false
    }
  }

  settle(claim: DirectoryClaim, outcome: Outcome, ranMs: number): Report {
    const { ref } = claim
    try {
      const { kind, atMs, detail } = this.#apply(claim, outcome)
      return { ref, kind, ranMs, atMs, detail }
    } catch (error) {
      const kind = outcome.kind === 'error' || outcome.kind === 'retry' ? outcome.kind : 'unsettled'
      return { ref, ranMs, kind, detail: `it could not be settled: ${toError(error).message}` }
    } finally {
      claim.isSettled = true
      release(claim.file, this.#locker)
    }
  }

  #apply({ ref, file, record, isMarked }: DirectoryClaim, outcome: Outcome): Settled {
    switch (outcome.kind) {
      case 'ok': {
        const settled = removeTask(file)
        if (record !== undefined && settled.kind === 'ok') this.#records.remove(ref)
        return settled
      }
      case 'ignore':
      case 'release':
        leaveAsFound(file, isMarked)
        return { kind: outcome.kind === 'ignore' ? 'ignore' : 'untouched' }
      case 'retry':
      case 'error': {
        const nowMs = Date.now()
        const atMs = nowMs + this.#options.frequencyMs
        const detail = outcome.kind === 'error' ? (outcome.error.stack ?? outcome.error.message) : undefined
        const failure = {
          nowMs,
          crashes: 0,
          nextRunAt: atMs,
          ...(detail === undefined ? {} : { error: detail }),
        }
        postpone(file, atMs, this.#tryRecord(ref, withFailure(record, failure)) || record !== undefined)
        return { kind: outcome.kind, atMs, ...(detail === undefined ? {} : { detail }) }
      }
    }
  }

  close(): void {
    this.#scanner?.close()
  }
}
