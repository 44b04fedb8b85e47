import { fdatasyncSync, fstatSync, fsyncSync } from 'node:fs'
import { messageOf, toError } from '../../../base/errors.js'
import { COARSEST_TIME_MS, epochNowMs } from '../../../base/own-clock.js'
import { type LastRun, lastRunAt } from '../../../base/task/last-run.js'
import type { Company, Outcome } from '../../../base/task/outcome.js'
import type { ParkReason } from '../../../base/task/parked.js'
import { baseName, displayName, type Ref, toByteString } from '../../../base/task/ref.js'
import { type Report, unknownName } from '../../../base/task/report.js'
import type { Delivery, NamedSlots, TermsOrPark } from '../../../base/task/terms.js'
import { taskNameOf } from '../../../formats/protocol/named.js'
import { lastValue, type Vars } from '../../../formats/protocol/vars.js'
import type { TellDeath } from '../../contracts/death.js'
import { DELIVERY_KEY, verdictOf } from '../../contracts/verdict.js'
import { type Locker, type LockKind, openLocker } from '../locker.js'
import { isUwsgiName, type NameRules } from '../names.js'
import { TaskDirectories } from '../priority-directory.js'
import { isCounted, type TaskRecord } from '../records.js'
import { setTime } from '../spool-file.js'
import { BESIDE, lasting, ONCE, pastOf, readState, STARTED, writeState } from '../state-byte.js'
import { reopenState } from '../state-directory.js'
import {
  type ClaimedFile,
  claimFile,
  closeRemoved,
  type HandleUnfit,
  isShortage,
  laterOf,
  letGo,
  type Refusal,
  type Unfit,
} from './claim.js'
import { ClaimedTask } from './claimed-task.js'
import { runsOf, type Settled, type SettleOptions, Settler } from './settle.js'
import { Slots } from './slots.js'

interface ClaimsOptions extends SettleOptions, UnfitOptions {
  /** The delivery of tasks for which neither the packet nor the handler says otherwise. */
  readonly delivery: Delivery
  /**
   * True if the handler only passes tasks on: all tasks but held ones are due, whatever their time, and none is delivered at
   * most once.
   */
  readonly forwards?: boolean | undefined
  /** Returns what the handlers say of a task. Absent if they say nothing of any. */
  readonly termsOf?: ((vars: Vars) => TermsOrPark) | undefined
  readonly died?: TellDeath | undefined
}

/**
 * The time up to which passed-on tasks are due: before the times of held tasks, of which the earliest is the end of 32-bit
 * time.
 */
const LATEST_MS = (2 ** 31 - 1) * 1000 - 1

/** The report of a run whose outcome could not be applied to its file. */
const KIND_WHEN_UNSETTLED = {
  ok: 'unsettled',
  ignore: 'ignore',
  release: 'untouched',
  retry: 'retry',
  error: 'error',
  bury: 'unsettled',
  cancel: 'unsettled',
  crash: 'later',
} as const satisfies Record<Outcome['kind'], Report['kind']>

// This file is longer than others, because what becomes of a claim, from its first to its last step, is here.
/** Claims, begins, settles and releases the tasks of one spool: a worker's part in the life of a task. */
export class Claims {
  readonly #options: ClaimsOptions
  readonly #locker: Locker
  readonly #settler: Settler
  readonly #handleUnfit: HandleUnfit
  readonly #directories: TaskDirectories
  readonly slots: Slots
  /** True if the last ref that was tried is for later. */
  #isAmongLater = false
  /** The spool's real path, as text. */
  readonly #spool: string

  constructor(options: ClaimsOptions, locker: Locker) {
    this.#options = options
    this.#locker = locker
    this.#settler = new Settler(options)
    this.#handleUnfit = file => handleUnfit(file, options, this.#settler)
    this.#spool = displayName(options.spool)
    this.slots = new Slots(options.spool, locker.kind)
    this.#directories = new TaskDirectories(options.spool)
  }

  claim(ref: Ref, lastRun?: LastRun): ClaimedTask | Report {
    const nowMs = this.#options.forwards === true ? LATEST_MS : epochNowMs()
    const later = this.#isAmongLater ? laterOf(ref, this.#directories, nowMs) : undefined
    const file = later ?? claimFile(ref, this.#directories, this.#locker, nowMs, this.#handleUnfit)
    this.#isAmongLater = !('fd' in file) && file.kind === 'later' && !this.#locker.isRemote
    if (!('fd' in file)) return { ref, ranMs: 0, ...file }
    try {
      const terms = this.#options.termsOf?.(file.vars)
      if (typeof terms === 'object') file.terms = terms
      const claim = file.state === 0 ? this.#take(file, undefined) : this.#resume(file, lastRun)
      if ('file' in claim)
        return terms === 'unknown-name' ? { ...this.release(claim), ...unknownNameOf(file) } : claim
      letGo(file, this.#locker)
      return { ref, ranMs: 0, ...claim, kind: claim.kind === 'buried' ? 'set-aside' : claim.kind }
    } catch (error) {
      letGo(file, this.#locker)
      return { ref, ranMs: 0, kind: 'unreadable', detail: toError(error).message }
    }
  }

  #take(file: ClaimedFile, record: TaskRecord | undefined): ClaimedTask {
    const claim = new ClaimedTask(file, record, this.#isOnce(file), this.#locker.kind === 'ofd', this.#spool)
    const { terms } = file
    if (terms?.slots !== undefined)
      claim.findsNoSlot = !this.slots.mayTake(file.ref, terms.slots, claim.mustBeAlone)
    return claim
  }

  #isOnce({ vars, terms }: ClaimedFile): boolean {
    if (this.#options.forwards === true) return false
    return (lastValue(vars, DELIVERY_KEY) ?? terms?.delivery ?? this.#options.delivery) === 'at-most-once'
  }

  /** @see Claims.begin */
  begin(claim: ClaimedTask, company: Company): Report | undefined {
    if (claim.terms?.slots !== undefined) {
      const refusal = this.#takeSlot(claim, claim.terms.slots)
      if (refusal !== undefined) return refusal
    }
    try {
      markBegun(claim, company)
      return undefined
    } catch (error) {
      const { slots } = this.release(claim)
      const detail = `was not started, because its run cannot be marked in its file: ${toError(error).message}`
      return { ref: claim.ref, ranMs: 0, kind: 'unreadable', detail, slots }
    }
  }

  #takeSlot(claim: ClaimedTask, slots: NamedSlots): Report | undefined {
    try {
      // a task that must be alone does not wait behind others: it is with the worker for such tasks, and any other worker would
      // hand it back
      claim.slot = this.slots.take(claim.ref, slots, claim.mustBeAlone)
      return claim.slot === undefined ? this.release(claim, 'slot') : undefined
    } catch (error) {
      reopenState(this.#options.spool)
      const detail = `a slot of ${slots.name} cannot be taken: ${messageOf(error)}`
      return isShortage(error)
        ? { ...this.release(claim), detail }
        : { ...this.release(claim, 'slot'), detail }
    }
  }

  /** Closes what is left open. The directory is checked, because another one may be at the spool's path by the next claim. */
  rest(isEmpty: boolean): void {
    closeRemoved()
    if (isEmpty) this.#directories.release()
    else this.#directories.check()
  }

  release(claim: ClaimedTask, reason?: ParkReason): Report {
    claim.isSettled = true
    letGo(claim.file, this.#locker)
    const report = { ref: claim.ref, ranMs: 0 }
    if (reason === 'slot') return { ...report, kind: 'parked', reason, slots: claim.terms?.slots }
    if (reason !== undefined) return { ...report, kind: 'parked', reason }
    return { ...report, kind: 'untouched', ...this.#giveSlotBack(claim) }
  }

  #giveSlotBack(claim: ClaimedTask): Pick<Report, 'slots'> | undefined {
    const { slot, terms } = claim
    if (slot === undefined || terms?.slots === undefined) return undefined
    this.slots.giveBack(terms.slots, slot)
    claim.slot = undefined
    return { slots: terms.slots }
  }

  /** Resumes a task whose file has a past: an earlier run failed, crashed its process, or could not be settled. */
  #resume(file: ClaimedFile, lastRun: LastRun | undefined): ClaimedTask | Settled {
    const record = this.#settler.recordOf(file)
    const ownRun = lastRunAt(lastRun, file.mtimeMs)
    const past = this.#settler.past(file, record, ownRun)
    if (past === undefined) {
      const mustBeAlone = pastOf(file.state) === 'died-beside' && ownRun?.kind !== 'blameless'
      return this.#resumeAt(mustBeAlone ? file : { ...file, state: lasting(file.state) }, record)
    }
    const { death, ...settled } = past
    if (death !== undefined) this.#options.died?.(this.#take(file, record), death)
    if (settled.kind !== 'later' || (settled.atMs ?? 0) > epochNowMs()) return settled
    const settledFile = { ...file, state: readState(file.fd) }
    if ((settledFile.state & STARTED) !== 0) return settled // the run could not be counted
    return this.#take(settledFile, this.#settler.recordOf(settledFile))
  }

  /**
   * Claims the file if the time for which its last run asked has come. An mtime of whole seconds is only close to that time.
   * `touch` ends the wait.
   */
  #resumeAt(file: ClaimedFile, record: TaskRecord | undefined): ClaimedTask | Settled {
    const { nextRunAt = 0, isTimeUnset = false } = record ?? {}
    const isWaiting = isTimeUnset || Math.abs(file.mtimeMs - nextRunAt) < 1000
    if (nextRunAt <= epochNowMs()) return this.#take(file, record)
    if (!isWaiting && !this.#settler.isTimeLost(file)) return this.#take(file, record)
    if (!isWaiting) setTime(file.fd, nextRunAt)
    return { kind: 'later', atMs: nextRunAt }
  }

  settle(claim: ClaimedTask, outcome: Outcome, ranMs: number, _next?: Ref, isFollowed = false): Report {
    const report = this.#settle(claim, outcome, ranMs)
    const { slot, terms } = claim
    if (slot === undefined || terms?.slots === undefined) return report
    if (!isFollowed) return { ...report, ...this.#giveSlotBack(claim) }
    this.slots.keep(terms.slots, slot)
    return { ...report, slots: terms.slots }
  }

  #settle(claim: ClaimedTask, outcome: Outcome, ranMs: number): Report {
    const { ref } = claim
    try {
      if (!this.#locker.holds(ref)) return { ref, kind: 'locked', ranMs: 0 } // the new holder says what becomes of the task
      const { file, record, isOnce } = claim
      const verdict = verdictOf(outcome, runsOf(record), isOnce, this.#settler.rulesFor(file))
      const { kind, atMs, detail, reason } = this.#settler.ended(file, record, verdict, ranMs)
      return { ref, kind, ranMs, atMs, detail, reason }
    } catch (error) {
      return {
        ref,
        ranMs,
        kind: KIND_WHEN_UNSETTLED[outcome.kind],
        detail: `could not be settled: ${toError(error).message}`,
      }
    } finally {
      claim.isSettled = true
      if (claim.isShared) this.#locker.unshare(claim.file.fd)
      letGo(claim.file, this.#locker)
    }
  }
}

function unknownNameOf({ vars }: ClaimedFile) {
  return unknownName(taskNameOf(vars) ?? '')
}

/** `spool` is the real path. */
export interface DirectoryClaimsOptions extends ClaimsOptions {
  readonly locks: LockKind
}

export async function openDirectoryClaims(options: DirectoryClaimsOptions): Promise<Claims> {
  const locker = await openLocker(options.spool, options.locks)
  return new Claims({ ...options, spool: toByteString(options.spool) }, locker)
}

interface UnfitOptions {
  readonly rules: NameRules
  /** How long an unfit file may stay unchanged before it is buried. */
  readonly graceMs: number
}

/**
 * Handles a file that is not a task. No other process has it locked, but its writer may be slow, so the file gets a grace time.
 * Then it is buried if it has a name that only uWSGI generates; any other file may belong to somebody, and is left alone.
 */
function handleUnfit(file: Unfit, { rules, graceMs }: UnfitOptions, settler: Settler): Refusal {
  const { kind, detail, ref, changedAtMs } = file
  const endsAt = changedAtMs + graceMs
  const isOurs = isUwsgiName(baseName(ref), rules)
  const seconds = Math.max(0, Math.round((epochNowMs() - changedAtMs) / 1000))
  const why = `${detail}; no process holds it, last changed ${seconds} s ago`
  const isOver = endsAt <= epochNowMs()
  if (!isOurs && (isOver || kind === 'malformed')) return { kind: 'malformed', detail: why }
  if (!isOver) return { kind, detail: why, atMs: kind === 'incomplete' ? changedAtMs : endsAt }
  try {
    const { kind: how, detail: reason } = settler.setAside(file, undefined, kind, why)
    return how === 'gone' ? { kind: 'gone' } : { kind: 'set-aside', detail: reason ?? why }
  } catch (error) {
    return { kind: 'unreadable', detail: `${why}; it cannot be buried: ${messageOf(error)}` }
  }
}

/**
 * Marks in the file that a run starts.
 *
 * @throws if it cannot be written; the run must not start then
 */
function markBegun(claim: ClaimedTask, company: Company): void {
  if (claim.isOnce) return markOnce(claim)
  const { fd, state } = claim.file
  writeState(fd, STARTED | (company === 'beside' ? BESIDE : 0) | lasting(state))
  tellApart(claim)
}

/**
 * Marks the start of a run that may happen only once. A power failure must not lose the mark, and a run that did not start must
 * not be marked.
 */
function markOnce(claim: ClaimedTask): void {
  const { fd, state } = claim.file
  writeState(fd, STARTED | ONCE | lasting(state))
  try {
    if (!tellApart(claim)) throw new Error('its times are too coarse to tell this run from the last one')
    if (claim.record === undefined) fdatasyncSync(fd)
    else fsyncSync(fd) // a data sync may leave the file with the mtime of the last run, which is counted
  } catch (error) {
    writeState(fd, state)
    throw error
  }
}

/**
 * Gives the file another mtime if it has that of the last counted run: a run is identified by the mtime that its mark gave the
 * file.
 *
 * @returns false if the time cannot be set
 */
function tellApart({ file: { fd }, record }: ClaimedTask): boolean {
  if (record?.countedRun === undefined || !isCounted(record, fstatSync(fd).mtimeMs)) return true
  const mtimeMs = record.countedRun - COARSEST_TIME_MS
  return setTime(fd, mtimeMs)
}
