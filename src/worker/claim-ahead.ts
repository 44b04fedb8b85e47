import { Queue } from '../base/queue.js'
import type { Claim, ClaimsAtOnce } from '../engines/claims.js'
import { fromThrown } from '../task/answer.js'
import type { Company } from '../task/outcome.js'
import type { Report } from '../task/report.js'
import { loadBody } from './hosts/frames.js'
import { type Assignment, SLICE_MS } from './task-runner.js'

/** So many tasks go to a host at once: a message and a change of process are cheap when they are shared. */
const BATCH_TASKS = 64
/** Large bodies are not held twice by many. */
const BATCH_BYTES = 1024 * 1024

export interface Claimed {
  readonly claim: Claim
  readonly number: number
  /** The master knows that it runs. */
  isTold: boolean
}

/**
 * Claims tasks ahead of the host that will run them, and marks their runs as begun right before they are sent.
 *
 * Who is sent beside others begins beside them: when the host dies, or its worker, nobody knows whose fault it was. What
 * must be alone, and what runs at most once, is sent when the host is idle, and nothing is sent behind it.
 */
export class ClaimAhead {
  readonly #claims: ClaimsAtOnce
  readonly #queue = new Queue<Assignment>()
  readonly #report: (number: number, report: Report) => void
  /** Claimed, and waiting until the host is idle. */
  #waitsToBeAlone: Claimed | undefined
  #isAlone = false

  /** @param report what is not sent */
  constructor(claims: ClaimsAtOnce, report: (number: number, report: Report) => void) {
    this.#claims = claims
    this.#report = report
  }

  get isEmpty(): boolean {
    return this.#queue.size === 0 && this.#waitsToBeAlone === undefined
  }

  /** What was sent last is alone in the host, or what comes next has to be. */
  get isAlone(): boolean {
    return this.#isAlone || this.#waitsToBeAlone !== undefined
  }

  push(assignment: Assignment): void {
    this.#queue.push(assignment)
  }

  /** What can go to the host together, at most `room`. To be sent at once: it has begun. */
  next(room: number, isHostIdle: boolean): Claimed[] {
    const batch = this.#claimBatch(room, isHostIdle)
    this.#isAlone = isHostIdle && batch.length === 1
    const company = this.#isAlone ? 'alone' : 'beside'
    return batch.filter(claimed => {
      const end = this.#begin(claimed, company)
      if (end !== undefined) this.#report(claimed.number, end)
      return end === undefined
    })
  }

  /** A body that cannot be read, or is more than a host takes, is a failure of its own task. */
  #begin({ claim }: Claimed, company: Company): Report | undefined {
    const refusal = this.#claims.begin(claim, company)
    if (refusal !== undefined || claim.bodyBytes === 0) return refusal
    try {
      loadBody(claim)
      return undefined
    } catch (error) {
      return this.#claims.settle(claim, fromThrown(error), 0)
    }
  }

  /** Gives up what is not sent. */
  drop(): void {
    if (this.#waitsToBeAlone !== undefined)
      this.#report(this.#waitsToBeAlone.number, this.#claims.release(this.#waitsToBeAlone.claim))
    this.#waitsToBeAlone = undefined
    for (let next = this.#queue.pop(); next !== undefined; next = this.#queue.pop())
      this.#report(next.number, { ref: next.ref, kind: 'untouched', ranMs: 0 })
  }

  #claimBatch(room: number, isHostIdle: boolean): Claimed[] {
    const batch: Claimed[] = []
    const since = performance.now()
    let bytes = 0
    while (batch.length < Math.min(BATCH_TASKS, room) && bytes < BATCH_BYTES) {
      const claimed = this.#waitsToBeAlone ?? this.#claim()
      if (claimed === undefined) break
      this.#waitsToBeAlone = undefined
      const { mustBeAlone, isOnce, bodyBytes } = claimed.claim
      const isLoner = mustBeAlone || isOnce
      if (isLoner && (batch.length > 0 || !isHostIdle)) {
        this.#waitsToBeAlone = claimed
        break
      }
      batch.push(claimed)
      bytes += bodyBytes
      if (isLoner || performance.now() - since > SLICE_MS) break
    }
    return batch
  }

  #claim(): Claimed | undefined {
    for (let next = this.#queue.pop(); next !== undefined; next = this.#queue.pop()) {
      const claim = this.#claims.claim(next.ref, next.lastRun)
      if (!('kind' in claim)) return { claim, number: next.number, isTold: false }
      this.#report(next.number, claim)
    }
    return undefined
  }
}
