import { SpooldError, toError } from '../base/errors.js'
import type { Outcome } from '../task/outcome.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import { claimFile, type FileClaim, readBody } from './claim.js'
import type { Locker } from './lock.js'
import { crashDelayMs, Records, type TaskRecord, withFailure } from './records.js'
import { leaveAsFound, postpone, release, removeTask, type Settled } from './settle.js'
import { DONE, RECORDED, STARTED, SUSPECT, writeState } from './state-byte.js'

export interface ClaimsOptions {
  /** The spool's real path, a byte string. */
  readonly spool: string
  /** How long a retry waits. */
  readonly frequencyMs: number
  /** A read shows in the atime, and so marks a start. */
  readonly marksReads: boolean
}

/** A task file in hand, with what its record says. */
export class ClaimedTask {
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

/** What is reported of a run whose file could not be dealt with. */
const KIND_WHEN_UNSETTLED = {
  ok: 'unsettled',
  ignore: 'ignore',
  release: 'untouched',
  retry: 'retry',
  error: 'error',
} as const satisfies Record<Outcome['kind'], Report['kind']>

/** Takes hold of the tasks of one spool, and lets go of them: the part of a task's road that a worker goes. */
export class Claims {
  readonly #options: ClaimsOptions
  readonly #locker: Locker
  readonly #records: Records

  constructor(options: ClaimsOptions, locker: Locker) {
    this.#options = options
    this.#locker = locker
    this.#records = new Records(options.spool)
  }

  claim(ref: Ref, isBlameless = false): ClaimedTask | Report {
    const nowMs = Date.now()
    const file = claimFile(ref, `${this.#options.spool}/${ref}`, this.#locker, nowMs)
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
  #start(file: FileClaim, record: TaskRecord | undefined): ClaimedTask {
    const { marksReads } = this.#options
    if (marksReads && file.wasUnread && file.state === 0) return new ClaimedTask(file, record, false)
    const claim = new ClaimedTask(file, record, false)
    this.#mark(claim, marksReads && file.wasRead && record === undefined)
    return claim
  }

  mark(claim: ClaimedTask): void {
    if (claim.isMarked) return
    try {
      this.#mark(claim, false)
    } catch {} // it runs already, and the kernel's mark still stands
  }

  #mark(claim: ClaimedTask, isSuspect: boolean): void {
    const { file, record } = claim
    writeState(file.fd, STARTED | (isSuspect ? SUSPECT : 0) | (record === undefined ? 0 : RECORDED))
    claim.isMarked = true
  }

  /** The file has a past: an earlier run failed, took its process with it, or could not be cleared away. */
  #resume(file: FileClaim, nowMs: number, isBlameless: boolean): ClaimedTask | Report {
    const { ref } = file
    const record = this.#records.read(ref)
    if ((file.state & DONE) !== 0 && record?.doneInode === file.inode) {
      const settled = removeTask(file)
      release(file, this.#locker)
      return { ref, ranMs: 0, ...settled, kind: settled.kind === 'ok' ? 'gone' : settled.kind }
    }
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

  /** In the file, and in a record that knows the file: the byte alone may be anybody's, and must not cost a task. */
  #rememberDone(ref: Ref, file: FileClaim, record: TaskRecord | undefined): void {
    const nowMs = Date.now()
    const before = record ?? { attempts: 1, crashes: 0, firstFailureAt: nowMs, lastFailureAt: nowMs }
    this.#tryRecord(ref, { ...before, doneInode: file.inode })
    writeState(file.fd, DONE | RECORDED)
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

  settle(claim: ClaimedTask, outcome: Outcome, ranMs: number): Report {
    const { ref } = claim
    try {
      const { kind, atMs, detail } = this.#apply(claim, outcome)
      return { ref, kind, ranMs, atMs, detail }
    } catch (error) {
      return {
        ref,
        ranMs,
        kind: KIND_WHEN_UNSETTLED[outcome.kind],
        detail: `it could not be settled: ${toError(error).message}`,
      }
    } finally {
      claim.isSettled = true
      release(claim.file, this.#locker)
    }
  }

  #apply({ ref, file, record, isMarked }: ClaimedTask, outcome: Outcome): Settled {
    switch (outcome.kind) {
      case 'ok': {
        const settled = removeTask(file)
        if (settled.kind !== 'ok') this.#rememberDone(ref, file, record)
        else if (record !== undefined) this.#records.remove(ref)
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
        const detail = outcome.kind === 'error' ? outcome.detail : undefined
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
}
