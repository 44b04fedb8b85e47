import { fstatSync } from 'node:fs'
import { hostname } from 'node:os'
import { messageOf } from '../../../base/errors.js'
import type { BuryReason } from '../../../base/task/bury-reasons.js'
import type { RetryOutcome } from '../../../base/task/outcome.js'
import type { Ref } from '../../../base/task/ref.js'
import {
  crashDelayMs,
  LAST_ERROR,
  LONGEST_DELAY_MS,
  limitReached,
  type RetryPolicy,
  retryDelayMs,
} from '../../../base/task/retry-policy.js'
import { isInPlace } from '../../../system/files/exact-move.js'
import { type DeadLetter, DeadLetters } from '../dead-letters.js'
import { type Failure, ownRecord, Records, type TaskRecord, withFailure } from '../records.js'
import { type LockedFile, setTime } from '../spool-file.js'
import { BURY, DONE, lasting, ONCE, RECORDED, readState, STARTED, writeState } from '../state-byte.js'
import { reopenState } from '../state-directory.js'
import type { ClaimedFile } from './claim.js'
import { postpone, type Settled } from './settle.js'

export interface FailureOptions {
  /** The spool's real path, a byte string. */
  readonly spool: string
  /** The default delay of a retry, and the maximum delay after a crash. */
  readonly frequencyMs: number
  readonly policy: RetryPolicy
  /** The handler files, for readers of a dead letter. */
  readonly handlers: readonly string[]
}

/** The tick of the kernel's clock: of two successive times, the second may be earlier by this much. */
const TICK_MS = 20
/** One system call separates the record from the state byte; a touch in that time is not noticed. */
const CUT_MS = 250

/** A failed run that is to be counted. */
export interface FailedRun {
  readonly kind: Failure['kind']
  /** It ended some time ago: nothing has run now. */
  readonly isPast?: true
  readonly error?: string
  readonly wish?: Pick<RetryOutcome, 'delayMs' | 'policy'>
}

/** After a failed run, the task waits for the next one or is buried. The caller holds the file locked. */
export class Failures {
  readonly #options: FailureOptions
  readonly #records: Records
  readonly #letters: DeadLetters

  constructor(options: FailureOptions) {
    this.#options = options
    this.#records = new Records(options.spool)
    this.#letters = new DeadLetters(options.spool)
  }

  recordOf(file: ClaimedFile): TaskRecord | undefined {
    return file.state === 0 ? undefined : ownRecord(this.#records.read(file.ref), file)
  }

  /** Finishes settling a run that was counted, but whose runner died before it updated the file. */
  endCounted(file: ClaimedFile, { nextRunAt }: TaskRecord): Settled {
    const atMs = nextRunAt ?? file.mtimeMs
    postpone(file, atMs)
    return { kind: 'later', atMs }
  }

  /** The last runner died after the state byte said that its run is counted, and before the mtime said when the next one is. */
  isTimeLost({ ref, mtimeMs }: ClaimedFile): boolean {
    const writtenMs = this.#records.writtenAt(ref)
    return mtimeMs >= writtenMs - TICK_MS && mtimeMs <= writtenMs + CUT_MS
  }

  /**
   * Counts the run, and keeps the file for the next one unless this was the last that it may have. A run that cannot be
   * counted leaves its mark: the file waits, and does not run again before it is counted.
   */
  settle(file: ClaimedFile, before: TaskRecord | undefined, run: FailedRun): Settled {
    const nowMs = Date.now()
    const { kind, error, wish, isPast } = run
    const counted = withFailure(before, { ...run, nowMs, ...(wish?.policy && { policy: wish.policy }) })
    const record = { ...counted, countedRun: fstatSync(file.fd).mtimeMs }
    const limit = limitReached(this.#policyOf(file, record), record)
    if (limit !== undefined) return this.bury(file, record, limit.reason, limit.detail)
    const atMs = nowMs + Math.min(this.#delayMs(file, record, kind, wish), LONGEST_DELAY_MS)
    const fault = this.#tryRecord(file.ref, { ...record, nextRunAt: atMs })
    if (fault !== undefined) return this.#waitUncounted(file, isPast === true, fault)
    if (!postpone(file, atMs)) this.#tryRecord(file.ref, { ...record, nextRunAt: atMs, isTimeUnset: true })
    if (kind === 'crash' || isPast) return { kind: 'later', atMs }
    return { kind, atMs, ...(error === undefined ? {} : { detail: error }) }
  }

  #waitUncounted(file: ClaimedFile, isPast: boolean, fault: string): Settled {
    const atMs = Date.now() + this.#options.frequencyMs
    setTime(file.fd, atMs)
    const isOnce = (readState(file.fd) & ONCE) !== 0
    const then = isOnce
      ? 'it is delivered at most once, so it will be buried'
      : 'it does not run before that is done'
    return {
      kind: isPast ? 'unreadable' : 'unsettled',
      atMs,
      detail: `its failed run cannot be counted, and ${then}: ${fault}`,
    }
  }

  #delayMs(file: ClaimedFile, record: TaskRecord, kind: FailedRun['kind'], wish: FailedRun['wish']): number {
    const { frequencyMs } = this.#options
    if (wish?.delayMs !== undefined) return wish.delayMs
    if (kind === 'crash') return crashDelayMs(record.crashes, frequencyMs)
    return retryDelayMs(this.#policyOf(file, record), record.attempts, frequencyMs)
  }

  /** The options; over them, what its handler says of it; over that, what a run has asked for. */
  #policyOf({ terms }: ClaimedFile, { policy }: TaskRecord): RetryPolicy {
    const options = this.#options.policy
    return terms === undefined && policy === undefined ? options : { ...options, ...terms?.policy, ...policy }
  }

  /**
   * Moves the file out of the spool. If that fails (a full disk, a read-only one), the file stays and waits without being
   * run, and the burial is retried.
   */
  bury(file: ClaimedFile, record: TaskRecord | undefined, reason: BuryReason, detail: string): Settled {
    try {
      return this.setAside(file, record, reason, detail)
    } catch (error) {
      reopenState(this.#options.spool)
      const atMs = Date.now() + this.#options.frequencyMs
      const isReported = record?.burial !== undefined || (file.state & BURY) !== 0
      if (record?.burial === undefined) {
        const { mtimeMs: countedRun } = fstatSync(file.fd)
        const pending = { ...(record ?? { attempts: 0, crashes: 0 }), countedRun, burial: { reason, detail } }
        const fault = this.#tryRecord(file.ref, pending)
        // ONCE alone implies it, and the reason
        this.#tryMark(file, (reason === 'outcome-unknown' ? 0 : BURY) | (fault === undefined ? RECORDED : 0))
      }
      setTime(file.fd, atMs)
      if (isReported) return { kind: 'later', atMs }
      return {
        kind: 'unsettled',
        atMs,
        detail: `is to be buried, but cannot be: ${messageOf(error)}; ${detail}`,
      }
    }
  }

  /** @throws if it cannot be moved; nothing has changed then */
  setAside(file: LockedFile, record: TaskRecord | undefined, reason: BuryReason, detail: string): Settled {
    const letter = this.#letterOf(file.ref, record, reason, detail)
    if (!isInPlace(file) || this.#letters.bury(file, letter) === undefined) return { kind: 'gone' }
    // as it was, whatever a run has marked since; and not before, or a kill in between would let it run once more. A power
    // failure may forget the move and not the byte: what may run only once keeps its mark, which requeue removes
    if (file.state !== undefined && (readState(file.fd) & ONCE) === 0) writeState(file.fd, 0)
    this.forget(file.ref)
    const last = record?.lastError
    return {
      kind: 'buried',
      detail: last === undefined || last === detail ? detail : `${detail}${LAST_ERROR}${last}`,
    }
  }

  /** It ran to SPOOL_OK, but its file could not be removed; `fault` says why. */
  rememberDone(file: ClaimedFile, fault: string): Settled {
    const unmarked = this.#tryMark(file, DONE)
    const how = unmarked === undefined ? 'it will not run again' : `it may run again, because ${unmarked}`
    return { kind: 'unsettled', detail: `has finished, but its file cannot be removed, ${how}: ${fault}` }
  }

  /** Adds bits to the mark of its run. @returns why not */
  #tryMark(file: ClaimedFile, bits: number): string | undefined {
    try {
      writeState(file.fd, readState(file.fd) | lasting(file.state) | STARTED | bits)
      return undefined
    } catch (error) {
      return messageOf(error)
    }
  }

  /** A record that stays is an orphan, which harms no task. */
  forget(ref: Ref): void {
    try {
      this.#records.remove(ref)
    } catch {}
  }

  /** @returns why it could not be written */
  #tryRecord(ref: Ref, record: TaskRecord): string | undefined {
    try {
      this.#records.write(ref, record)
      return undefined
    } catch (error) {
      reopenState(this.#options.spool)
      return messageOf(error)
    }
  }

  #letterOf(ref: Ref, record: TaskRecord | undefined, reason: BuryReason, detail: string): DeadLetter {
    const { attempts = 0, crashes = 0, firstFailureAt, lastFailureAt, lastError } = record ?? {}
    return {
      ref,
      reason,
      detail,
      buriedAt: Date.now(),
      attempts,
      crashes,
      ...(firstFailureAt === undefined ? {} : { firstFailureAt }),
      ...(lastFailureAt === undefined ? {} : { lastFailureAt }),
      ...(lastError === undefined ? {} : { lastError }),
      handlers: this.#options.handlers,
      host: hostname(),
    }
  }
}
