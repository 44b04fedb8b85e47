import { ArraySet } from '../../base/array-set.js'
import { Queue } from '../../base/queue.js'
import type { ClaimNotice } from '../../base/task/claim-notice.js'
import type { Company } from '../../base/task/outcome.js'
import type { PausedPair } from '../../base/task/pause.js'
import type { Ref } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { Awaitable, Claim, Claims } from '../../engines/claims.js'
import { lastValue } from '../../formats/protocol/vars.js'
import { afterMessages } from './after-messages.js'
import type { Assignment } from './assignment.js'
import { ClaimNotices } from './claim-notices.js'
import { Run, type RunLimits } from './run.js'
import { Succession, type SuccessionNews } from './succession.js'

/** Limits the bodies of a batch, because the large ones may be in memory twice. */
const BATCH_BYTES = 1024 * 1024
/** Claiming a batch takes at most about this long, because messages wait meanwhile. */
const BATCH_MS = 5
/** If it took longer than this, the process was stopped, or its disk was: messages may have come meanwhile. */
const STALLED_MS = 100

interface ClaimerOptions extends RunLimits {
  readonly claims: Claims
  /** Tasks begin while others run in this process, so a task that must be alone cannot run here. */
  readonly isConcurrent: boolean
  /** These tasks are claimed and begin next; the master has to know it before. */
  announce(claims: ReadonlyArray<readonly [number: number, notice: ClaimNotice]>): void
  /** The task could not be claimed, could not begin, or was given up before it began. */
  refused(number: number, report: Report): void
  /** An asynchronous release of a claim has finished. */
  released(): void
}

/** Tasks that begin together. */
interface Batch {
  readonly runs: Run[]
  readonly room: number
  readonly isIdle: boolean
  readonly since: number
  bytes: number
  isFull: boolean
  /** No more of its tasks are to begin. */
  isDropped: boolean
  /** The task whose claim is awaited. */
  current: Assignment | undefined
  /** Of claims that are not announced yet. */
  notices: Array<readonly [number: number, notice: ClaimNotice]> | undefined
}

// Longer than others: all that may happen to a task between its message and its run is here.
/**
 * Claims the tasks that the master gave, and marks each as begun right before it is run.
 * A task that begins with others, or while others run, begins "beside" them: if their process dies, it is unknown
 * which one is to blame. Unless `isConcurrent`, a task that must be alone, that runs at most once, or that needs a slot, begins
 * only when nothing else runs, and no task begins beside it: a slot is not for a task that waits for others.
 */
export class Claimer {
  readonly #options: ClaimerOptions
  readonly #notices: ClaimNotices
  readonly #queue = new Queue<Assignment>()
  readonly #succession: Succession
  /** Batches whose claims are awaited. */
  readonly #pending = new ArraySet<Batch>()
  /** Claimed, and waiting until nothing runs. */
  #waitsToBeAlone: Run | undefined
  /** How many releases are awaited. */
  #releasing = 0
  #isAlone = false
  #isMessageDone = false
  /** Tasks with one of these pairs are parked. */
  paused: readonly PausedPair[] = []

  constructor(options: ClaimerOptions) {
    this.#options = options
    this.#notices = new ClaimNotices(options.announce)
    this.#succession = new Succession(options.claims)
  }

  /** How many tasks have not begun, without those that are being claimed, or that wait for others to end. */
  get size(): number {
    return this.#queue.size + this.#succession.ready + (this.#waitsToBeAlone === undefined ? 0 : 1)
  }

  get isEmpty(): boolean {
    return this.size === 0
  }

  /** What will be claimed after so many others. */
  peek(place: number): Ref | undefined {
    return this.#queue.peek(place)?.ref
  }

  /** @see Succession.takeNews */
  takeNews(): SuccessionNews {
    return this.#succession.takeNews()
  }

  /** None waits for anything. */
  get isDry(): boolean {
    return this.isEmpty && this.#succession.following === 0
  }

  /** True if the last task that began is alone, or the next one has to be. */
  get isAlone(): boolean {
    return this.#isAlone || this.#waitsToBeAlone !== undefined
  }

  /** How many asynchronous operations on claims are awaited. */
  get waiting(): number {
    return this.#pending.size + this.#releasing
  }

  /** The numbers of the tasks that are being claimed. Each will be reported, whatever the result. */
  get pending(): number[] {
    return [...this.#pending].flatMap(({ runs, current }) => [
      ...runs.map(({ number }) => number),
      ...(current === undefined ? [] : [current.number]),
    ])
  }

  /** True if the last task of a message has been claimed since the last call. */
  takeMessageDone(): boolean {
    const isDone = this.#isMessageDone
    this.#isMessageDone = false
    return isDone
  }

  /** @param follow they follow tasks of this name */
  push(assignments: readonly Assignment[], follow?: string): void {
    if (follow !== undefined) return this.#succession.add(follow, assignments)
    for (const each of assignments) this.#queue.push(each)
  }

  /** It has ended. @returns whether another task begins in its slot next */
  isFollowed({ claim }: Run, ranMs: number): boolean {
    const slots = claim.terms?.slots
    return slots !== undefined && this.#succession.ended(slots, ranMs)
  }

  /** Claims and begins tasks that can begin together, at most `room`. @param isIdle nothing runs */
  next(room: number, isIdle: boolean, now: number): Awaitable<readonly Run[]> {
    const batch: Batch = {
      runs: [],
      room,
      isIdle,
      since: now,
      bytes: 0,
      isFull: false,
      isDropped: false,
      current: undefined,
      notices: undefined,
    }
    const waited = this.#waitsToBeAlone
    this.#waitsToBeAlone = undefined
    if (waited !== undefined) this.#add(waited, batch)
    const runs = this.#claimMore(batch)
    return runs instanceof Promise ? this.#await(batch, runs) : runs
  }

  async #await(batch: Batch, runs: Promise<readonly Run[]>): Promise<readonly Run[]> {
    this.#pending.add(batch)
    try {
      return await runs
    } finally {
      this.#pending.delete(batch)
    }
  }

  /** Gives up the tasks that have not begun. */
  drop(): void {
    const waited = this.#waitsToBeAlone
    this.#waitsToBeAlone = undefined
    if (waited !== undefined) this.#release(waited)
    for (const { number, ref } of [...this.#succession.drop(), ...this.#queue])
      this.#refused(number, { ref, kind: 'untouched', ranMs: 0 })
    this.#queue.clear()
    for (const batch of this.#pending) batch.isDropped = true
  }

  #claimMore(batch: Batch): Awaitable<readonly Run[]> {
    while (!batch.isFull && !batch.isDropped) {
      const next = this.#succession.pop() ?? this.#queue.pop()
      if (next === undefined) break
      if (next.isLast) this.#isMessageDone = true
      const claim = this.#claim(next)
      if (claim instanceof Promise) {
        batch.current = next
        return claim.then(late => {
          batch.current = undefined
          this.#claimed(next, late, batch)
          return this.#claimMore(batch)
        })
      }
      this.#claimed(next, claim, batch)
    }
    return this.#begin(batch)
  }

  #claim({ ref, lastRun, isItsTurn }: Assignment): Awaitable<Claim | Report> {
    const claim = this.#options.claims.claim(ref, lastRun)
    return claim instanceof Promise
      ? claim.then(late => this.#parked(late, isItsTurn))
      : this.#parked(claim, isItsTurn)
  }

  #parked(claim: Claim | Report, isItsTurn: boolean): Awaitable<Claim | Report> {
    if ('kind' in claim) return claim
    const { isConcurrent, claims } = this.#options
    if (this.paused.length > 0 && this.#isPaused(claim)) return claims.release(claim, 'paused')
    if (claim.hasCrashed && !isItsTurn) return claims.release(claim, 'crashed')
    if (isConcurrent && claim.mustBeAlone) return claims.release(claim, 'alone')
    return claims.queue?.(claim) ?? claim
  }

  #isPaused({ vars }: Claim): boolean {
    return this.paused.some(([key, value]) => lastValue(vars, key) === value)
  }

  #claimed({ number }: Assignment, claim: Claim | Report, batch: Batch): void {
    if ('kind' in claim) return this.#refused(number, claim)
    if (claim.notice !== undefined) {
      batch.notices ??= []
      batch.notices.push([number, claim.notice])
    }
    this.#add(new Run(claim, number, this.#options), batch)
  }

  #add(run: Run, batch: Batch): void {
    const { mustBeAlone, isOnce, terms, bodyBytes } = run.claim
    const mayNotWait = mustBeAlone || isOnce || terms?.slots !== undefined
    const isForAlone = mayNotWait && !this.#options.isConcurrent
    if (isForAlone && (batch.runs.length > 0 || !batch.isIdle)) {
      this.#waitsToBeAlone = run
      batch.isFull = true
      return
    }
    batch.runs.push(run)
    batch.bytes += bodyBytes
    batch.isFull =
      isForAlone ||
      batch.runs.length >= batch.room ||
      batch.bytes >= BATCH_BYTES ||
      performance.now() - batch.since > BATCH_MS
  }

  #begin(batch: Batch): Awaitable<readonly Run[]> {
    const isStalled = batch.runs.length > 0 && performance.now() - batch.since > STALLED_MS
    if (!isStalled) return this.#beginAll(batch)
    return new Promise<void>(resolve => afterMessages(resolve)).then(() => this.#beginAll(batch))
  }

  #beginAll(batch: Batch): Awaitable<readonly Run[]> {
    const { runs, isIdle, notices } = batch
    if (notices !== undefined) this.#notices.add(notices)
    if (runs.length === 0) return runs
    this.#isAlone = isIdle && runs.length === 1 && !this.#options.isConcurrent
    return this.#beginFrom(0, batch, [], this.#isAlone ? 'alone' : 'beside')
  }

  #beginFrom(first: number, batch: Batch, begun: Run[], company: Company): Awaitable<readonly Run[]> {
    const { runs } = batch
    for (let i = first; i < runs.length; i++) {
      const run = runs[i]
      if (run === undefined) continue
      if (batch.isDropped) {
        this.#release(run)
        continue
      }
      const refusal = this.#options.claims.begin(run.claim, company)
      if (refusal instanceof Promise)
        return refusal.then(late => {
          this.#began(run, late, begun)
          return this.#beginFrom(i + 1, batch, begun, company)
        })
      this.#began(run, refusal, begun)
    }
    this.#notices.flush()
    return begun
  }

  #release({ claim, number }: Run): void {
    const { claims, released } = this.#options
    const report = claims.release(claim)
    if (!(report instanceof Promise)) return this.#refused(number, report)
    this.#releasing++
    void report.then(late => {
      this.#releasing--
      this.#refused(number, late)
      released()
    })
  }

  #began(run: Run, refusal: Report | undefined, begun: Run[]): void {
    if (refusal !== undefined) return this.#refused(run.number, refusal)
    this.#succession.began(run.number, run.claim.terms?.slots)
    begun.push(run)
  }

  #refused(number: number, report: Report): void {
    this.#options.refused(number, this.#succession.refused(number, report))
  }
}
