import { fdatasyncSync, fstatSync, fsyncSync } from 'node:fs'
import { messageOf, toError } from '../../../base/errors.js'
import { COARSEST_TIME_MS, epochNowMs } from '../../../base/own-clock.js'
import { type LastRun, lastRunAt } from '../../../base/task/last-run.js'
import type { Company, Outcome } from '../../../base/task/outcome.js'
import type { ParkReason } from '../../../base/task/parked.js'
import { baseName, type Ref, toByteString } from '../../../base/task/ref.js'
import { type Report, unknownName } from '../../../base/task/report.js'
import type { Delivery, NamedSlots, TermsOrPark } from '../../../base/task/terms.js'
import { taskNameOf } from '../../../formats/protocol/named.js'
import { lastValue, type Vars } from '../../../formats/protocol/vars.js'
import type { TellDeath } from '../../contracts/death.js'
import { DELIVERY_KEY, verdictOf } from '../../contracts/verdict.js'
import { type Locker, type LockKind, openLocker } from '../locker.js'
import { isUwsgiName, type NameRules } from '../names.js'
import { TaskDirectories } from '../priority-directory.js'
import { isCounted } from '../records.js'
import { setTime } from '../spool-file.js'
import { BESIDE, lasting, ONCE, pastOf, readState, STARTED, writeState } from '../state-byte.js'
import { reopenState } from '../state-directory.js'
import {
  claimFile,
  closeRemoved,
  type HandleUnfit,
  isShortage,
  laterOf,
  letGo,
  type Refusal,
  type Unfit,
} from './claim.js'
import type { ClaimedTask } from './claimed-task.js'
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

  constructor(options: ClaimsOptions, locker: Locker) {
    this.#options = options
    this.#locker = locker
    this.#settler = new Settler(options)
    this.#handleUnfit = file => handleUnfit(file, options, this.#settler)
    this.slots = new Slots(options.spool, locker.kind)
    this.#directories = new TaskDirectories(options.spool)
  }

  claim(ref: Ref, lastRun?: LastRun): ClaimedTask | Report {
    const nowMs = this.#options.forwards === true ? LATEST_MS : epochNowMs()
    const later = this.#isAmongLater ? laterOf(ref, this.#directories, nowMs) : undefined
    const task = later ?? claimFile(ref, this.#directories, this.#locker, nowMs, this.#handleUnfit)
    this.#isAmongLater = 'kind' in task && task.kind === 'later' && !this.#locker.isRemote
    if ('kind' in task) return { ref, ranMs: 0, ...task }
    try {
      const terms = this.#options.termsOf?.(task.vars)
      if (typeof terms === 'object') task.terms = terms
      const settled = task.file.state === 0 ? undefined : this.#settlePast(task, lastRun)
      if (settled !== undefined) {
        letGo(task.file, this.#locker)
        return { ref, ranMs: 0, ...settled, kind: settled.kind === 'buried' ? 'set-aside' : settled.kind }
      }
      if (terms === 'unknown-name')
        return { ...this.release(task), ...unknownName(taskNameOf(task.vars) ?? '') }
      task.isOnce = this.#isOnce(task)
      task.isSharable = this.#locker.kind === 'ofd'
      if (task.terms?.slots !== undefined)
        task.findsNoSlot = !this.slots.mayTake(ref, task.terms.slots, task.mustBeAlone)
      return task
    } catch (error) {
      letGo(task.file, this.#locker)
      return { ref, ranMs: 0, kind: 'unreadable', detail: toError(error).message }
    }
  }

  #isOnce({ vars, terms }: ClaimedTask): boolean {
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

  /**
   * Settles what the past of a file left: an earlier run failed, crashed its process, or could not be settled.
   *
   * @returns undefined if the task may run now
   */
  #settlePast(task: ClaimedTask, lastRun: LastRun | undefined): Settled | undefined {
    const { file } = task
    const ownRun = lastRunAt(lastRun, task.mtimeMs)
    const past = this.#settler.past(task, ownRun)
    if (past === undefined) {
      const mustBeAlone = pastOf(file.state) === 'died-beside' && ownRun?.kind !== 'blameless'
      if (!mustBeAlone) file.state = lasting(file.state)
      return this.#waitOf(task)
    }
    const { death, ...settled } = past
    if (death !== undefined) this.#options.died?.(task, death)
    if (settled.kind !== 'later' || (settled.atMs ?? 0) > epochNowMs()) return settled
    file.state = readState(file.fd)
    if ((file.state & STARTED) !== 0) return settled // the run could not be counted
    this.#settler.readRecord(task)
    return undefined
  }

  /**
   * Returns the wait of a task until the time for which its last run asked; undefined if that has come. An mtime of whole seconds
   * is only close to that time. `touch` ends the wait.
   */
  #waitOf({ file, mtimeMs, record }: ClaimedTask): Settled | undefined {
    const { nextRunAt = 0, isTimeUnset = false } = record ?? {}
    if (nextRunAt <= epochNowMs()) return undefined
    if (!isTimeUnset && Math.abs(mtimeMs - nextRunAt) >= 1000) {
      if (!this.#settler.isTimeLost(file.ref, mtimeMs)) return undefined
      setTime(file.fd, nextRunAt)
    }
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
      const verdict = verdictOf(outcome, runsOf(claim.record), claim.isOnce, this.#settler.rulesFor(claim))
      const { kind, atMs, detail, reason } = this.#settler.ended(claim, verdict, ranMs)
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
