import { SpooldError } from '../../base/errors.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Company, Outcome } from '../../base/task/outcome.js'
import type { ParkReason } from '../../base/task/parked.js'
import type { Ref } from '../../base/task/ref.js'
import { type ClaimNotice, type Report, unknownName } from '../../base/task/report.js'
import type { Terms } from '../../base/task/terms.js'
import { isNamed, taskNameOf } from '../../formats/protocol/named.js'
import { lastValue } from '../../formats/protocol/vars.js'
import type { Claim, Claims, ClaimsSettings } from '../claims.js'
import {
  type Again,
  type Burial,
  DELIVERY_KEY,
  pastVerdict,
  type Rules,
  verdictOf,
} from '../contracts/verdict.js'
import type { MemorySpool, MemoryTask } from './spool.js'

const LOST = 'could not be settled: its claim had ended'

type Refusal = Pick<Report, 'kind' | 'atMs' | 'detail'>

/** The real `setImmediate`, even while a test has replaced it. */
const { setImmediate: nextTurn } = globalThis
/** Makes every answer come in a later turn of the event loop, as from an engine that asks another process. */
const later = () => new Promise<void>(resolve => nextTurn(resolve))

/** A task that a worker in this process holds. */
class MemoryClaim implements Claim {
  readonly ref: Ref
  readonly task: MemoryTask
  readonly lease: string
  readonly isOnce: boolean
  readonly path: string
  readonly directory = undefined
  isSettled = false

  constructor(ref: Ref, task: MemoryTask, lease: string, isOnce: boolean, path: string) {
    this.ref = ref
    this.task = task
    this.lease = lease
    this.isOnce = isOnce
    this.path = path
  }

  get notice(): ClaimNotice {
    return { name: this.task.name, lease: this.lease }
  }

  get name(): string {
    return this.task.name
  }

  get priority(): number | null {
    return this.task.priority
  }

  get vars() {
    return this.task.vars
  }

  get terms(): Terms | undefined {
    return this.task.terms
  }

  get dueAtMs(): number {
    return this.task.dueAtMs
  }

  get attempt(): number {
    return this.task.attempts + 1
  }

  get bodyBytes(): number {
    return this.task.body?.length ?? 0
  }

  get mustBeAlone(): boolean {
    return this.task.past === 'died-beside' || this.hasCrashed
  }

  get hasCrashed(): boolean {
    return this.task.crashes > 0
  }

  readBody(): Buffer | undefined {
    if (this.isSettled)
      throw new SpooldError('CLAIM_LOST', `the body of ${this.name} was asked for after its run had ended`)
    return this.task.body
  }

  shareLock(): undefined {}
}

/** One worker's operations on the tasks of a spool in memory. */
export class MemoryClaims implements Claims {
  readonly #spool: MemorySpool
  readonly #options: ClaimsSettings
  readonly #held = new Set<MemoryClaim>()

  constructor(spool: MemorySpool, options: ClaimsSettings) {
    this.#spool = spool
    this.#options = options
  }

  /**
   * Gives up all claims. Call it when the worker is gone. Its tasks can be claimed again, and the next claim finds the marks of
   * runs that had begun.
   */
  abandon(): void {
    for (const { lease } of this.#held) this.#spool.giveUp(lease)
    this.#held.clear()
  }

  /** @see Claims.claim */
  async claim(ref: Ref, lastRun?: LastRun): Promise<Claim | Report> {
    await later()
    const task = this.#spool.tasks.get(ref)
    if (task === undefined) return { ref, kind: 'gone', ranMs: 0 }
    const { name } = task
    const lease = this.#spool.lease(task)
    if (lease === undefined) return { ref, name, kind: 'locked', ranMs: 0 }
    const terms = this.#options.termsOf?.(task.vars)
    task.terms = typeof terms === 'object' ? terms : undefined
    const delivery = lastValue(task.vars, DELIVERY_KEY) ?? task.terms?.delivery ?? this.#options.delivery
    const claim = new MemoryClaim(ref, task, lease, delivery === 'at-most-once', this.#spool.pathOf(task))
    const refusal = this.#refusalOf(claim, lastRun ?? task.lastRun)
    if (refusal !== undefined) {
      this.#spool.giveUp(lease)
      return { ref, name, ranMs: 0, ...refusal }
    }
    if (terms === 'unknown-name') {
      this.#spool.giveUp(lease)
      return { ref, name, ranMs: 0, ...unknownName(taskNameOf(task.vars) ?? '') }
    }
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
  async release(claim: Claim, reason?: ParkReason): Promise<Report> {
    await later()
    const own = this.#own(claim)
    if (own !== undefined) this.#letGo(own)
    const report = { ref: claim.ref, ranMs: 0 }
    return reason === undefined ? { ...report, kind: 'untouched' } : { ...report, kind: 'parked', reason }
  }

  /** Nothing is put off, and nothing is fetched in advance. */
  rest(): void {}

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
  #refusalOf(claim: MemoryClaim, lastRun: LastRun | undefined): Refusal | undefined {
    const refusal = this.#settlePast(claim, lastRun)
    if (refusal !== undefined) return refusal
    const { task } = claim
    return task.dueAtMs > Date.now() ? { kind: 'later', atMs: task.dueAtMs } : undefined
  }

  #settlePast(claim: MemoryClaim, lastRun: LastRun | undefined): Refusal | undefined {
    const { task } = claim
    const verdict = pastVerdict(task.past, lastRun, task, this.#rulesFor(task))
    task.lastRun = undefined
    task.past = verdict.kind === 'run' ? verdict.past : 'none'
    if (verdict.kind !== 'run' && verdict.death !== undefined) {
      const atMs = verdict.kind === 'again' ? Date.now() + verdict.delayMs : undefined
      this.#options.died?.(claim, { cause: verdict.death, atMs }) // first, because it tells the task as it was in that run
    }
    if (verdict.kind === 'again') this.#again(task, verdict) // due now or later
    if (verdict.kind !== 'bury') return undefined
    return { ...this.#bury(task, verdict), kind: 'set-aside' }
  }

  #rulesFor({ terms }: MemoryTask): Rules {
    const { policy, frequencyMs } = this.#options
    return { policy, frequencyMs, terms }
  }

  #apply(
    { task, isOnce }: MemoryClaim,
    outcome: Outcome,
  ): Pick<Report, 'kind' | 'atMs' | 'detail' | 'reason'> {
    const verdict = verdictOf(outcome, task, isOnce, this.#rulesFor(task))
    switch (verdict.kind) {
      case 'remove':
        this.#spool.tasks.delete(task.name)
        return { kind: 'ok' }
      case 'ignored':
        return isNamed(task.vars) ? unknownName(taskNameOf(task.vars) ?? '') : { kind: 'ignore' }
      case 'put-back':
        return { kind: 'untouched' }
      case 'bury':
        return this.#bury(task, verdict)
      default:
        return this.#again(task, verdict)
    }
  }

  #again(task: MemoryTask, { as, delayMs, detail, runs }: Again): Pick<Report, 'kind' | 'atMs' | 'detail'> {
    Object.assign(task, runs)
    task.dueAtMs = Date.now() + delayMs
    return { kind: as, atMs: task.dueAtMs, detail }
  }

  #bury(task: MemoryTask, { reason, detail, runs }: Burial): Pick<Report, 'kind' | 'detail'> {
    Object.assign(task, runs)
    this.#spool.bury(task, reason, detail)
    return { kind: 'buried', detail }
  }
}
