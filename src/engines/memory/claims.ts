import { isNamed, taskNameOf } from '../../protocol/named.js'
import { lastValue, type Vars } from '../../protocol/vars.js'
import type { Delivery } from '../../task/delivery.js'
import type { LastRun } from '../../task/last-run.js'
import type { Company, Outcome } from '../../task/outcome.js'
import type { Ref } from '../../task/ref.js'
import { type FeedReason, type Report, unknownName } from '../../task/report.js'
import {
  crashDelayMs,
  LAST_ERROR,
  limitReached,
  type RetryPolicy,
  retryDelayMs,
} from '../../task/retry-policy.js'
import type { TermsOrPark } from '../../task/terms.js'
import type { Claim, Claims } from '../claims.js'
import { MemoryClaim } from './claim.js'
import type { DeadTask, MemorySpool, MemoryTask } from './spool.js'

export interface MemoryClaimsOptions {
  readonly policy: RetryPolicy
  /** The default; a packet may name its own. */
  readonly delivery: Delivery
  /** The default delay of a retry, and the maximum delay after a crash. */
  readonly frequencyMs: number
  /** What the handlers say of a task; absent: nothing of any. */
  readonly termsOf?: ((vars: Vars) => TermsOrPark) | undefined
}

/** The packet's key for its own delivery. */
const DELIVERY_KEY = 'spooler_delivery'
const LOST = 'could not be settled: its claim had ended'
const CUT_SHORT = 'its worker ended in the middle of it; it is delivered at most once'

type Refusal = Pick<Report, 'kind' | 'atMs' | 'detail'>

/** The real one, also while a test has another in its place. */
const { setImmediate: nextTurn } = globalThis
/** Every answer comes in a later turn of the event loop, as from an engine that asks another process. */
const later = () => new Promise<void>(resolve => nextTurn(resolve))

/** One worker's operations on the tasks of a spool in memory. */
export class MemoryClaims implements Claims {
  readonly #spool: MemorySpool
  readonly #options: MemoryClaimsOptions
  readonly #held = new Set<MemoryClaim>()

  constructor(spool: MemorySpool, options: MemoryClaimsOptions) {
    this.#spool = spool
    this.#options = options
  }

  /**
   * Call it when the worker is gone. Its tasks can be claimed again, and the next claim finds the marks of runs that
   * had begun.
   */
  abandon(): void {
    for (const { lease } of this.#held) this.#spool.giveUp(lease)
    this.#held.clear()
  }

  /** @see Claims.claim */
  async claim(ref: Ref, lastRun?: LastRun): Promise<Claim | Report> {
    await later()
    const task = this.#spool.taskOf(ref)
    if (task === undefined) return { ref, kind: 'gone', ranMs: 0 }
    const { name } = task
    const lease = this.#spool.lease(task)
    if (lease === undefined) return { ref, name, kind: 'locked', ranMs: 0 }
    const terms = this.#options.termsOf?.(task.vars)
    task.terms = typeof terms === 'object' ? terms : undefined
    const refusal = this.#refusalOf(task, lastRun ?? task.lastRun)
    if (refusal !== undefined) {
      this.#spool.giveUp(lease)
      return { ref, name, ranMs: 0, ...refusal }
    }
    if (terms === 'unknown-name') {
      this.#spool.giveUp(lease)
      return { ref, name, ranMs: 0, ...unknownName(taskNameOf(task.vars) ?? '') }
    }
    const delivery = lastValue(task.vars, DELIVERY_KEY) ?? task.terms?.delivery ?? this.#options.delivery
    const isOnce = delivery === 'at-most-once'
    const claim = new MemoryClaim(ref, task, lease, isOnce, this.#spool.pathOf(task))
    this.#held.add(claim)
    return claim
  }

  /** @see Claims.begin */
  async begin(claim: Claim, company: Company): Promise<Report | undefined> {
    await later()
    const own = this.#own(claim)
    if (own === undefined) return { ref: claim.ref, kind: 'locked', ranMs: 0 }
    const { slots } = own.task.terms ?? {}
    if (slots !== undefined && !this.#spool.slots.take(own.lease, slots)) {
      this.#letGo(own)
      return { ref: claim.ref, ranMs: 0, kind: 'parked', reason: 'slot', slots }
    }
    own.task.past = own.isOnce ? 'died-once' : `died-${company}`
    return undefined
  }

  /** @see Claims.settle */
  async settle(claim: Claim, outcome: Outcome, ranMs: number): Promise<Report> {
    await later()
    const own = this.#own(claim)
    if (own === undefined) return { ref: claim.ref, kind: 'unsettled', ranMs, detail: LOST }
    own.task.past = 'none'
    const report = this.#apply(own, outcome)
    this.#letGo(own)
    return { ref: claim.ref, ranMs, ...report, slots: own.task.terms?.slots }
  }

  /** @see Claims.release */
  async release(claim: Claim, reason?: FeedReason): Promise<Report> {
    await later()
    const own = this.#own(claim)
    if (own !== undefined) this.#letGo(own)
    const report = { ref: claim.ref, ranMs: 0 }
    return reason === undefined ? { ...report, kind: 'untouched' } : { ...report, kind: 'parked', reason }
  }

  /** Returns undefined if the claim is no longer held. */
  #own(claim: Claim): MemoryClaim | undefined {
    if (!(claim instanceof MemoryClaim) || !this.#held.has(claim)) return undefined
    if (this.#spool.isLeased(claim.lease)) return claim
    this.#held.delete(claim)
    return undefined
  }

  #letGo(claim: MemoryClaim): void {
    claim.isSettled = true
    this.#spool.giveUp(claim.lease)
    this.#held.delete(claim)
  }

  /** @returns undefined if the task may be claimed */
  #refusalOf(task: MemoryTask, lastRun: LastRun | undefined): Refusal | undefined {
    const refusal = this.#settlePast(task, lastRun)
    if (refusal !== undefined) return refusal
    return task.dueAtMs > Date.now() ? { kind: 'later', atMs: task.dueAtMs } : undefined
  }

  #settlePast(task: MemoryTask, lastRun: LastRun | undefined): Refusal | undefined {
    const { past } = task
    task.lastRun = undefined
    if (past === 'none') return undefined
    if (lastRun?.kind === 'cancelled')
      return { ...this.#bury(task, 'cancelled', lastRun.detail), kind: 'set-aside' }
    const cause = lastRun?.kind === 'crash' ? lastRun.cause : 'its worker ended'
    if (past === 'died-once')
      return { ...this.#bury(task, 'outcome-unknown', `${cause}; ${CUT_SHORT}`), kind: 'set-aside' }
    if (lastRun?.kind === 'blameless') task.past = 'none'
    if (task.past !== 'died-alone') return undefined
    task.past = 'none'
    const counted = this.#fail(task, { kind: 'crash', detail: cause })
    return counted.kind === 'buried' ? { ...counted, kind: 'set-aside' } : undefined // due now or later
  }

  #apply(
    { task, isOnce }: MemoryClaim,
    outcome: Outcome,
  ): Pick<Report, 'kind' | 'atMs' | 'detail' | 'reason'> {
    switch (outcome.kind) {
      case 'ok':
        this.#spool.tasks.delete(task.name)
        return { kind: 'ok' }
      case 'ignore':
        return isNamed(task.vars) ? unknownName(taskNameOf(task.vars) ?? '') : { kind: 'ignore' }
      case 'release':
        if (isOnce && outcome.isUnbegun !== true) return this.#bury(task, 'outcome-unknown', CUT_SHORT)
        return { kind: 'untouched' }
      case 'cancel':
        return this.#bury(task, 'cancelled', outcome.detail)
      case 'bury':
        task.attempts++
        return this.#bury(task, 'asked', outcome.detail)
      case 'crash':
        if (isOnce) return this.#bury(task, 'outcome-unknown', outcome.detail)
        return this.#fail(task, outcome)
      default:
        return this.#fail(task, outcome)
    }
  }

  #fail(
    task: MemoryTask,
    failure: Extract<Outcome, { kind: 'retry' | 'error' | 'crash' }>,
  ): Pick<Report, 'kind' | 'atMs' | 'detail'> {
    const { frequencyMs } = this.#options
    const { kind, detail } = failure
    task.attempts++
    if (kind === 'crash') task.crashes++
    if (failure.kind === 'retry') task.policy = { ...task.policy, ...failure.policy }
    const policy = { ...this.#options.policy, ...task.terms?.policy, ...task.policy }
    const limit = limitReached(policy, task)
    if (limit !== undefined)
      return this.#bury(
        task,
        limit.reason,
        detail === undefined ? limit.detail : `${limit.detail}${LAST_ERROR}${detail}`,
      )
    const wishMs = kind === 'retry' ? failure.delayMs : undefined
    const delayMs =
      kind === 'crash'
        ? crashDelayMs(task.crashes, frequencyMs)
        : (wishMs ?? retryDelayMs(policy, task.attempts, frequencyMs))
    task.dueAtMs = Date.now() + delayMs
    return { kind: kind === 'crash' ? 'later' : kind, atMs: task.dueAtMs, detail }
  }

  #bury(task: MemoryTask, reason: DeadTask['reason'], detail: string): Pick<Report, 'kind' | 'detail'> {
    this.#spool.bury(task, reason, detail)
    return { kind: 'buried', detail }
  }
}
