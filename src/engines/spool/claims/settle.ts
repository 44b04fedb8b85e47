import { fstatSync } from 'node:fs'
import { messageOf, quietly } from '../../../base/errors.js'
import { crypto } from '../../../base/on-demand.js'
import { epochNowMs } from '../../../base/own-clock.js'
import type { LastRun } from '../../../base/task/last-run.js'
import type { BuryReason } from '../../../base/task/outcome.js'
import type { Ref } from '../../../base/task/ref.js'
import { type Report, unknownName } from '../../../base/task/report.js'
import { LAST_ERROR, type RetryPolicy } from '../../../base/task/terms.js'
import { isNamed, taskNameOf } from '../../../formats/protocol/named.js'
import { shownBelow, systemError } from '../../../system/calls.js'
import { named } from '../../../system/files/anchored-path.js'
import { beside, isInPlace, moveExactly } from '../../../system/files/exact-move.js'
import { systemCalls } from '../../../system/libc.js'
import type { Death } from '../../contracts/death.js'
import {
  type Again,
  type Burial,
  type PastVerdict,
  pastVerdict,
  type Rules,
  type Runs,
  type Verdict,
} from '../../contracts/verdict.js'
import { DeadLetters, letterOf } from '../dead-letters.js'
import { createTaskName, hasUwsgiPrefix } from '../names.js'
import { isCounted, Records, type TaskRecord, withFailure } from '../records.js'
import { type LockedFile, setTime } from '../spool-file.js'
import {
  BURY,
  DONE,
  isBegun,
  lasting,
  ONCE,
  pastOf,
  RECORDED,
  readState,
  STARTED,
  writeState,
} from '../state-byte.js'
import { reopenState } from '../state-directory.js'
import { ENOENT } from './claim.js'
import type { ClaimedTask, OpenFile } from './claimed-task.js'

/** What remains of a claim once its file is settled. */
export type Settled = Pick<Report, 'kind' | 'atMs' | 'detail' | 'reason'>

export interface SettleOptions {
  /** The spool's real path, a byte string. */
  readonly spool: string
  /** The default delay of a retry, and the maximum delay after a crash. */
  readonly frequencyMs: number
  readonly policy: RetryPolicy
  /** The handler files, for readers of a dead letter. */
  readonly handlers: readonly string[]
}

/** The tick of the kernel's clock: the second of two successive times may be earlier by this much. */
const TICK_MS = 20
/**
 * The maximum time between the writes of the record and of the state byte, which one system call separates. A touch in that
 * time is not noticed.
 */
const CUT_MS = 250

/**
 * Applies the verdict of a run to its file: removes the file, keeps it for its next run, or makes it a dead letter. If the disk
 * refuses that, a mark stays, so that nothing runs again because of it. The caller holds the file locked.
 */
export class Settler {
  readonly #options: SettleOptions
  readonly #records: Records
  readonly #letters: DeadLetters

  constructor(options: SettleOptions) {
    this.#options = options
    this.#records = new Records(options.spool)
    this.#letters = new DeadLetters(options.spool)
  }

  /** Reads what the record says of a task. It may have changed since the file was claimed. */
  readRecord(task: ClaimedTask): void {
    const { ref, state } = task.file
    task.record = this.#records.of(ref, state, task.mtimeMs)
  }

  rulesFor({ terms }: ClaimedTask): Rules {
    const { policy, frequencyMs } = this.#options
    return { policy, terms, frequencyMs }
  }

  /** Applies the verdict of a run that has ended. @throws the error of the disk, if it refuses */
  ended(task: ClaimedTask, verdict: Verdict, ranMs: number): Settled {
    const { ref, vars, record } = task
    switch (verdict.kind) {
      case 'remove': {
        const fault = removeTask(task, ranMs)
        if (fault !== undefined) return this.#rememberDone(task, fault)
        if (record !== undefined) this.forget(ref)
        return { kind: 'ok' }
      }
      case 'put-back':
        leaveAsFound(task)
        return { kind: 'untouched' }
      case 'ignored':
        leaveAsFound(task)
        return isNamed(vars) ? unknownName(taskNameOf(vars) ?? '') : { kind: 'ignore' }
      case 'bury':
        return this.#bury(task, recordAfter(record, verdict), verdict)
      case 'again':
        return this.#keep(task, verdict, false)
    }
  }

  /**
   * Reads the record of a task, and settles what its last run left: the file has only to be removed, has to be buried, or its
   * runner died.
   *
   * @returns undefined if nothing is left to settle, so that the task runs
   */
  past(task: ClaimedTask, lastRun?: LastRun): (Settled & { readonly death?: Death }) | undefined {
    this.readRecord(task)
    const { file, record, mtimeMs } = task
    const past = pastOf(file.state)
    if (past === 'done') return this.#removeDone(task)
    if (record?.burial !== undefined) {
      const { reason, detail } = record.burial
      return this.#bury(task, record, { reason, why: detail })
    }
    if (past === 'to-bury') return this.#bury(task, record, UNKNOWN_REASON)
    if (isBegun(file.state) && record !== undefined && isCounted(record, mtimeMs))
      return endCounted(task, record)
    // a run that ended but could not be counted left a future mtime; a run that died did not
    const isFailed = (past === 'died-alone' || past === 'died-beside') && task.isPostponed
    const left = isFailed ? 'failed' : past
    const verdict = pastVerdict(left, lastRun, runsOf(record), this.rulesFor(task))
    switch (verdict.kind) {
      case 'run':
        // at once, because the claim may still be released without a run
        if (verdict.past !== past) leaveAsFound(task)
        return undefined
      case 'bury':
        return withDeath(this.#bury(task, recordAfter(record, verdict), verdict), verdict)
      case 'again':
        return withDeath(this.#keep(task, verdict, true), verdict)
    }
  }

  /**
   * True if the last runner died after the state byte said that its run is counted, and before the mtime said when the next one
   * is.
   */
  isTimeLost(ref: Ref, mtimeMs: number): boolean {
    const writtenMs = this.#records.writtenAt(ref)
    return mtimeMs >= writtenMs - TICK_MS && mtimeMs <= writtenMs + CUT_MS
  }

  /**
   * Counts the run, and keeps the file for the next one. A run that cannot be counted leaves its mark: the file waits, and does
   * not run again before that run is counted.
   *
   * @param isPast true if the run ended some time ago, so that nothing has run now
   */
  #keep({ file, record: before }: ClaimedTask, verdict: Again, isPast: boolean): Settled {
    const counted = withFailure(before, verdict.runs, verdict.failed, epochNowMs())
    const atMs = epochNowMs() + verdict.delayMs
    const record = { ...counted, countedRun: fstatSync(file.fd).mtimeMs, nextRunAt: atMs }
    const fault = this.#tryRecord(file.ref, record)
    if (fault !== undefined) return this.#waitUncounted(file, isPast, withError(fault, verdict.failed.error))
    if (!postpone(file, atMs)) this.#tryRecord(file.ref, { ...record, isTimeUnset: true })
    if (isPast && verdict.as !== 'later') return { kind: 'later', atMs } // the run was reported when it ended
    return { kind: verdict.as, atMs, ...(verdict.detail === undefined ? {} : { detail: verdict.detail }) }
  }

  #waitUncounted(file: OpenFile, isPast: boolean, fault: string): Settled {
    const atMs = epochNowMs() + this.#options.frequencyMs
    setTime(file.fd, atMs)
    const isOnce = (readState(file.fd) & ONCE) !== 0
    const then = isOnce
      ? 'it is delivered at most once, so it will be buried'
      : 'it does not run before that is done'
    return {
      kind: isPast ? 'unreadable' : 'unsettled',
      atMs,
      detail: `has failed, but that run cannot be counted, and ${then}: ${fault}`,
    }
  }

  /**
   * Moves the file out of the spool. If that fails (a full disk, a read-only one), the file stays and waits without being run,
   * and the burial is retried.
   */
  #bury(
    { file }: ClaimedTask,
    record: TaskRecord | undefined,
    { reason, why: detail }: Pick<Burial, 'reason' | 'why'>,
  ): Settled {
    try {
      return this.setAside(file, record, reason, detail)
    } catch (error) {
      reopenState(this.#options.spool)
      const atMs = epochNowMs() + this.#options.frequencyMs
      const isReported = record?.burial !== undefined || (file.state & BURY) !== 0
      if (record?.burial === undefined) {
        const { mtimeMs: countedRun } = fstatSync(file.fd)
        const pending = { ...(record ?? { attempts: 0, crashes: 0 }), countedRun, burial: { reason, detail } }
        const fault = this.#tryRecord(file.ref, pending)
        // ONCE alone implies the burial, and its reason
        tryMark(file, (reason === 'outcome-unknown' ? 0 : BURY) | (fault === undefined ? RECORDED : 0))
      }
      setTime(file.fd, atMs)
      if (isReported) return { kind: 'later', atMs }
      return {
        kind: 'unsettled',
        atMs,
        detail: `is to be buried, but cannot be: ${messageOf(error)}; ${withError(detail, record?.lastError)}`,
      }
    }
  }

  /** Makes the file a dead letter. @throws if it cannot be moved; nothing has changed then */
  setAside(file: LockedFile, record: TaskRecord | undefined, reason: BuryReason, detail: string): Settled {
    const letter = letterOf(file.ref, reason, detail, record, this.#options.handlers)
    if (!this.#letters.bury(file, letter)) return { kind: 'gone' }
    return { kind: 'buried', detail: withError(detail, record?.lastError) }
  }

  /** Marks a task that ran to SPOOL_OK, but whose file could not be removed; `fault` says why. */
  #rememberDone({ file }: ClaimedTask, fault: string): Settled {
    const unmarked = tryMark(file, DONE)
    const how = unmarked === undefined ? 'it will not run again' : `it may run again, because ${unmarked}`
    return { kind: 'unsettled', detail: `has finished, but its file cannot be removed, ${how}: ${fault}` }
  }

  #removeDone(task: ClaimedTask): Settled {
    const fault = removeTask(task, Number.POSITIVE_INFINITY)
    // the task did not run now, so this is logged once, as for every file that is left alone
    if (fault !== undefined)
      return { kind: 'unreadable', detail: `has finished, but its file cannot be removed: ${fault}` }
    this.forget(task.ref)
    return { kind: 'gone' }
  }

  /** Removes the record of a task. One that stays is an orphan, which harms no task. */
  forget(ref: Ref): void {
    quietly(() => this.#records.remove(ref))
  }

  /** @returns why the record could not be written; undefined if it was */
  #tryRecord(ref: Ref, record: TaskRecord): string | undefined {
    try {
      this.#records.write(ref, record)
      return undefined
    } catch (error) {
      reopenState(this.#options.spool)
      return messageOf(error)
    }
  }
}

const UNKNOWN_REASON = {
  reason: 'unknown',
  why: 'it was to be buried, and the reason could not be recorded',
} as const

export function runsOf(record: TaskRecord | undefined): Runs {
  const { attempts = 0, crashes = 0, policy = {} } = record ?? {}
  return { attempts, crashes, policy }
}

/** Adds the death that is to be told, except for a file that somebody has moved away: its next claim is elsewhere. */
function withDeath(settled: Settled, { kind, death }: PastVerdict): Settled & { readonly death?: Death } {
  if (death === undefined || settled.kind === 'gone') return settled
  return { ...settled, death: { cause: death, atMs: kind === 'again' ? settled.atMs : undefined } }
}

/** Adds the last error of a task to a sentence. It is told above all where it cannot be recorded. */
function withError(why: string, error: string | undefined): string {
  return error === undefined || error === why ? why : `${why}${LAST_ERROR}${error}`
}

function recordAfter(before: TaskRecord | undefined, { runs, failed }: Burial): TaskRecord | undefined {
  return failed === undefined ? before : withFailure(before, runs, failed, epochNowMs())
}

/** Adds bits to the mark of the run. @returns why that failed; undefined if it did not */
function tryMark(file: OpenFile, bits: number): string | undefined {
  try {
    writeState(file.fd, readState(file.fd) | lasting(file.state) | STARTED | bits)
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

/** Finishes settling a run that was counted, but whose runner died before it updated the file. */
function endCounted({ file, mtimeMs }: ClaimedTask, { nextRunAt }: TaskRecord): Settled {
  const atMs = nextRunAt ?? mtimeMs
  postpone(file, atMs)
  return { kind: 'later', atMs }
}

/**
 * Keeps a file, whose record is written, for another run at `atMs`, by its mtime, which a plain uWSGI honours, too.
 *
 * @returns false if the time cannot be set (a file of another user), so that only the record has it
 */
function postpone({ fd, state }: OpenFile, atMs: number): boolean {
  writeState(fd, lasting(state) | RECORDED)
  return setTime(fd, atMs)
}

/** Leaves the file as it was found, with its own time. */
function leaveAsFound({ file: { fd, state }, mtimeMs }: ClaimedTask): void {
  writeState(fd, lasting(state))
  setTime(fd, mtimeMs)
}

/** In a run shorter than this, no other process had time to replace the file that ran. */
const QUICK_MS = 1

/**
 * Returns the name under which a finished file waits for its removal. If this process dies before that, the sweep removes the
 * file, or moves it back if its inode differs from the one in the name.
 */
function doneName({ fd }: OpenFile): string {
  const { inode } = systemCalls().status(fd)
  // Node draws the bytes of many UUIDs at once; 6 bytes drawn alone cost as much as 100
  const random = crypto().randomUUID().slice(-12)
  return `.spoold-done-${inode}-${process.pid}-${random}.tmp`
}

const DONE_NAME = /^done-(\d+)-\d+-[0-9a-f]{12}$/

/** Returns the inode in the hidden name of a finished file, given without prefix and suffix; undefined for any other name. */
export function doneInode(name: string): bigint | undefined {
  const inode = DONE_NAME.exec(name)?.[1]
  return inode === undefined ? undefined : BigInt(inode)
}

/**
 * Removes the file of a task that ran to SPOOL_OK, while the file is still locked. `unlink` removes whatever has the path. A
 * free name may be reused during a run, so the file is first moved to an unpredictable name, and checked there. That costs as
 * much as the removal itself; a quick run under a generated name, which is used once, skips it.
 *
 * @returns the error if the file could not be removed
 */
function removeTask(task: ClaimedTask, ranMs: number): string | undefined {
  const isAlone = ranMs < QUICK_MS && hasUwsgiPrefix(task.file.name)
  try {
    if (isAlone) removeHere(task)
    else removeExactly(task)
  } catch (error) {
    return messageOf(named(error))
  }
  return undefined
}

/** Unlinks whatever has the name. A missing file is no error, because people may remove a task while it runs. */
function removeHere({ file, isLinked }: ClaimedTask): void {
  const error = systemCalls().tryUnlinkat(file.directory, file.name)
  if (error < 0 && error !== ENOENT) throw systemError(error, 'unlink', shownBelow(file.directory, file.name))
  // otherwise the file may have another name now, under which somebody waits for its lock
  file.isNameless = error === 0 && !isLinked
}

function removeExactly(task: ClaimedTask): void {
  const { file, isLinked } = task
  const hidden = beside(file, doneName(file))
  try {
    if (!moveExactly(file, hidden, createTaskName)) return // the file was moved or replaced while it ran
  } catch {
    // a full disk may have no room for another name, or the name may be too long; then a check has to do
    if (isInPlace(file)) removeHere(task)
    return
  }
  // otherwise the sweep removes the file
  file.isNameless = systemCalls().tryUnlinkat(hidden.directory, hidden.name) === 0 && !isLinked
}
