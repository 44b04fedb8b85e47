import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { SpooldError, toError } from '../../base/errors.js'
import { epochNowMs } from '../../base/own-clock.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Company, Outcome } from '../../base/task/outcome.js'
import type { ParkReason } from '../../base/task/parked.js'
import type { Ref } from '../../base/task/ref.js'
import { type Report, unknownName } from '../../base/task/report.js'
import type { Terms, TermsOrPark } from '../../base/task/terms.js'
import { isNamed, taskNameOf } from '../../formats/protocol/named.js'
import { lastValue } from '../../formats/protocol/vars.js'
import type { Awaitable, Claim, Claims, ClaimsSettings } from '../claims.js'
import { DELIVERY_KEY, pastVerdict, type Rules, type Unsettled, verdictOf } from '../contracts/verdict.js'
import { Begins, type Begun, type Mark } from './begins.js'
import { RedisClaim } from './claim.js'
import { pauseMs } from './client.js'
import type { Connection } from './connection.js'
import { BLAMELESS, LeftJobs } from './left-jobs.js'
import { eraseMark, type Pulled, Pulls, type Refusal } from './pulls.js'
import { refusalCode, renew, Unreadable } from './queues.js'
import { type HeldJob, heldJobOf, leaseOf, tokenFor } from './refs.js'
import { isRefusal, isUnreadable, isUnsent, whyNot } from './store-failure.js'
import { earlyMs, recordAfter, type TaskRecord, UNWANTED_CAP_MS, withoutLastRun } from './task-job.js'

/** Tells people something about a task. */
type Tell = (task: string, message: string) => void

export interface RedisClaimsOptions extends ClaimsSettings {
  /** The beginning of the tokens of this worker's locks. No other worker has it. */
  readonly identity?: string | undefined
  readonly tell?: Tell | undefined
}

/** A job that has been pulled, and may run as far as is known. */
type Locked = Pick<RedisClaim, 'job' | 'queue' | 'token' | 'terms'>

/** How long a claim waits for a connection. */
const PATIENCE_MS = 1000
const LOST = 'could not be settled: its claim had ended'
const FOREIGN = 'its job has no packet: it was not stored as a task'
const MISSING_JOB = -1

// The file is long because everything that may become of a claim is here.
/** One worker's operations on the tasks of a spool on Redis. A ticket brings the most urgent job that is due. */
export class RedisClaims implements Claims {
  readonly #connection: Connection
  readonly #pulls: Pulls
  readonly #begins: Begins
  readonly #options: RedisClaimsOptions
  /** Jobs that this worker may have pulled without learning it. */
  readonly #left: LeftJobs
  readonly #persistence: Persistence
  readonly #id: string
  #next = 0

  constructor(connection: Connection, options: RedisClaimsOptions) {
    this.#connection = connection
    this.#begins = new Begins(connection)
    this.#pulls = new Pulls(connection, options.termsOf)
    this.#options = options
    this.#left = new LeftJobs(connection)
    this.#persistence = new Persistence(connection, options.tell)
    this.#id = options.identity ?? randomUUID()
  }

  /** @see Claims.claim */
  claim(ref: Ref, lastRun?: LastRun): Awaitable<Claim | Report> {
    const fetched = lastRun === undefined ? this.#pulls.pullFetched(ref) : undefined
    const claim = fetched === undefined ? undefined : this.#claimAtOnce(ref, fetched)
    return claim ?? this.#claimLater(ref, lastRun, fetched)
  }

  /** Claims a fetched job without asking Redis, if the job runs for the first time and may run now. */
  #claimAtOnce(ref: Ref, { queue, token, job, found, early }: Pulled): Claim | undefined {
    const nowMs = this.#connection.knownNowMs
    if (job === undefined || nowMs === undefined || earlyMs(job, nowMs) > 0) return undefined
    if (found === 'unknown-name' || found?.slots !== undefined || job.record.past !== 'none') return undefined
    return this.#claimOf(ref, { job, queue, token, terms: found }, withoutLastRun(job.record), early)
  }

  async #claimLater(
    ref: Ref,
    lastRun: LastRun | undefined,
    fetched: Pulled | undefined,
  ): Promise<Claim | Report> {
    const tokens = [`${this.#id}.${this.#next++}`]
    try {
      return await this.#connection.use(() => this.#claim(ref, tokens, lastRun, fetched), PATIENCE_MS)
    } catch (error) {
      if (error instanceof Unreadable)
        return { ref, name: error.id, kind: 'set-aside', ranMs: 0, detail: error.message }
      const wasSent = !(error instanceof SpooldError && error.code === 'REDIS_UNREACHABLE')
      if (wasSent) this.#left.add(tokens)
      // if there is no connection, the feed says why
      const isOfAll = isRefusal(error) || (isUnreadable(error) && toError(error).name === 'ReplyError')
      if (isOfAll) return { ref, kind: 'locked', ranMs: 0, detail: whyNot(error) }
      if (!this.#connection.isReady || isUnsent(error)) return { ref, kind: 'untouched', ranMs: 0 }
      return { ref, kind: 'unreadable', ranMs: 0, detail: whyNot(error) }
    }
  }

  /** @param tokens begins with the token to pull with; the token of a fetched job is added */
  async #claim(
    ref: Ref,
    tokens: string[],
    lastRun: LastRun | undefined,
    fetched: Pulled | undefined,
  ): Promise<Claim | Report> {
    if (heldJobOf(ref) === undefined && lastRun !== undefined) return ofAnotherJob(ref, lastRun)
    const pulled = await this.#pulls.pull(ref, tokens, fetched)
    if ('kind' in pulled) return { ref, ranMs: 0, ...pulled }
    const { queue, json, token, job, found } = pulled
    const report = { ref, name: json.id, ranMs: 0 }
    if (job === undefined) {
      await queue.setAside(token, FOREIGN)
      return { ...report, kind: 'set-aside', detail: FOREIGN }
    }
    const terms = typeof found === 'object' ? found : undefined
    const own = { job, queue, token, terms }
    const past = await this.#settlePast(ref, own, lastRun)
    if ('kind' in past) return { ...report, ...past }
    const refusal = await this.#refusalOf(own, found)
    if (refusal !== undefined) return { ...report, ...refusal }
    return this.#claimOf(ref, own, past)
  }

  #claimOf(ref: Ref, own: Locked, record: TaskRecord, early?: Begun): RedisClaim {
    const { job, queue, token, terms } = own
    const path = `${this.#connection.name}/${job.id}`
    const isOnce = this.#isOnce(own)
    return new RedisClaim(ref, { job, queue, token, terms, path, record, early, isOnce })
  }

  #isOnce(own: Locked): boolean {
    return (deliveryOf(own) ?? this.#options.delivery) === 'at-most-once'
  }

  /** Settles what the last run left. @returns the record of a task that may run, as it is from now on */
  async #settlePast(ref: Ref, own: Locked, lastRun: LastRun | undefined): Promise<TaskRecord | Refusal> {
    const { job, queue, token, terms } = own
    const { lastRun: known, ...record } = job.record
    const cut = lastRun ?? known
    // the mark of the run before it, with which it was fetched; what the option alone makes so may have begun before the change
    const isAlwaysOnce = deliveryOf(own) === 'at-most-once'
    const hasNotBegun = record.past !== 'died-once' && isAlwaysOnce && cut?.kind !== 'cancelled'
    const verdict = pastVerdict(record.past, hasNotBegun ? BLAMELESS : cut, record, this.#rules(terms))
    if (verdict.kind === 'run') return { ...record, past: verdict.past }
    const next = { ...recordAfter(record, verdict), past: 'none' as const }
    const dead = this.#claimOf(ref, own, record)
    const died = (atMs?: number) => {
      if (verdict.death !== undefined) this.#options.died?.(dead, { cause: verdict.death, atMs })
    }
    if (verdict.kind === 'bury') {
      await queue.bury(job.json, token, { ...next, reason: verdict.reason }, verdict.detail)
      died()
      return { kind: 'set-aside', detail: verdict.detail }
    }
    if (verdict.delayMs === 0) {
      if (await queue.mark(dead.held, next)) died(epochNowMs()) // this claim may be released
      return next
    }
    const atMs = await queue.delay(job.id, token, verdict.delayMs, next)
    died(atMs)
    return { kind: 'later', atMs, detail: verdict.detail }
  }

  /** @returns undefined if the task may run now */
  async #refusalOf(own: Locked, found: TermsOrPark): Promise<Refusal | undefined> {
    const { job, queue, token } = own
    if (found === 'unknown-name') return this.#putOff(own, job.record)
    const delayMs = earlyMs(job, await this.#connection.nowMs())
    if (delayMs === 0) return undefined
    return { kind: 'later', atMs: await queue.delay(job.id, token, delayMs, job.record) }
  }

  /** Delays a task whose name no handler here knows, because a handler of another daemon may know it. */
  async #putOff({ job, queue, token }: Locked, record: TaskRecord): Promise<Refusal> {
    const unwanted = (record.unwanted ?? 0) + 1
    const delayMs = Math.min(this.#options.frequencyMs * 2 ** (unwanted - 1), UNWANTED_CAP_MS)
    const atMs = await queue.delay(job.id, token, delayMs, { ...record, unwanted })
    return { ...unknownName(taskNameOf(job.vars) ?? ''), atMs }
  }

  #rules(terms: Terms | undefined): Rules {
    const { policy, frequencyMs } = this.#options
    return { policy, frequencyMs, terms }
  }

  /** @see Claims.begin */
  begin(claim: Claim, company: Company): Promise<Report | undefined> {
    const own = ownOf(claim)
    if (own === undefined) return Promise.resolve({ ref: claim.ref, kind: 'locked', ranMs: 0 })
    const mark: Mark = own.isOnce ? 'died-once' : `died-${company}`
    // a promise nevertheless, so that what is claimed in one moment is announced together
    if (own.early?.past === mark) return Promise.resolve(begun(own, mark, own.early.fence))
    const { unwanted: _, ...record } = own.record
    const add = () => this.#begins.add(own.queue.key(''), own.held, { ...record, past: mark })
    return this.#persistence.run(own.held, add).then(fence => begun(own, mark, fence))
  }

  /** @see Claims.settle */
  settle(claim: Claim, outcome: Outcome, ranMs: number, next?: Ref): Promise<Report> {
    const own = ownOf(claim)
    const { ref } = claim
    const lost = (): Report => ({ ref, kind: 'unsettled', ranMs, detail: LOST })
    if (own === undefined) return Promise.resolve(lost())
    own.isSettled = true
    const verdict = verdictOf(outcome, own.record, own.isOnce, this.#rules(own.terms))
    const { held, slots } = own
    if (verdict.kind === 'remove')
      // nearly all verdicts: one literal, because properties spread behind others are slow
      return this.#persistence
        .run(held, tries => this.#remove(own, tries > 0, next))
        .then((): Report => ({ ref, kind: 'ok', ranMs, slots }), lost)
    return this.#persistence
      .run(held, () => this.#apply(own, verdict))
      .then(applied => ({ ref, ranMs, ...applied, slots }), lost)
  }

  /** Settles a task that is not done. */
  async #apply(own: RedisClaim, verdict: Unsettled): Promise<Refusal> {
    const { job, queue, token } = own
    const record: TaskRecord = { ...own.record, past: 'none' }
    switch (verdict.kind) {
      case 'put-back':
        await queue.mark(own.held, record)
        await queue.putBack(job.id, token)
        return { kind: 'untouched' }
      case 'ignored': {
        if (isNamed(job.vars)) return this.#putOff(own, record)
        const unwanted = { ...record, unwanted: 1 }
        const atMs = await queue.delay(job.id, token, this.#options.frequencyMs, unwanted)
        return { kind: 'ignore', atMs }
      }
      case 'bury': {
        const buried = { ...recordAfter(record, verdict), reason: verdict.reason }
        await queue.bury(job.json, token, buried, verdict.detail)
        return { kind: 'buried', detail: verdict.detail }
      }
      case 'again': {
        const runs = recordAfter(record, verdict)
        const atMs = await queue.delay(job.id, token, verdict.delayMs, runs)
        return { kind: verdict.as, atMs, detail: verdict.detail }
      }
    }
  }

  rest(isEmpty: boolean): void {
    if (isEmpty) this.#pulls.giveBack()
  }

  /**
   * Removes a task that is done. The job that is fetched with this begins in the same step, with the same mark, unless tasks are
   * delivered at most once here. Such a task is marked only by its own begin: if this process dies before it has learned what it
   * fetched, that task has not begun.
   *
   * @param mayBeDone true if the removal was tried before, and the reply was lost
   */
  #remove(own: RedisClaim, mayBeDone: boolean, next: Ref | undefined): Promise<void> {
    const { job, queue, token, mark } = own
    const pullsNext = !mayBeDone && this.#pulls.mayFetch(queue, next)
    const marksNext = mark !== 'died-once' && this.#options.delivery === 'at-least-once'
    return queue.removeDone(job.json, token, pullsNext, marksNext ? mark : undefined).then(
      fetched => {
        if (fetched !== undefined) this.#pulls.fetched(fetched)
      },
      error => {
        if (pullsNext && refusalCode(error) === undefined) this.#left.add([token], [leaseOf(own.held)])
        if (!mayBeDone || refusalCode(error) !== MISSING_JOB) throw error
      },
    )
  }

  /** @see Claims.release */
  async release(claim: Claim, reason?: ParkReason): Promise<Report> {
    const own = ownOf(claim)
    const report = { ref: claim.ref, name: claim.name, ranMs: 0 }
    if (own === undefined) return { ...report, kind: 'untouched' }
    own.isSettled = true
    const slots = reason === 'alone' ? own.slots : undefined // the task is to run soon
    try {
      await eraseMark({ queue: own.queue, json: own.job.json, token: own.token, early: own.early })
      if (reason === undefined) await own.queue.putBack(own.job.id, own.token)
      else if (await this.#pulls.handOver(own.held, tokenFor(claim.ref), slots !== undefined))
        return { ...report, kind: 'parked', reason, slots }
    } catch {} // its lock expires
    return { ...report, kind: 'untouched' }
  }
}

/** How many refusals pass before people are told, after a second or so. Fewer are a failover, or a script that is busy. */
const TRIES_UNTOLD = 6

/** Repeats what a worker has to store of its runs until Redis has answered, and tells people once if Redis refuses it. */
class Persistence {
  readonly #connection: Connection
  readonly #tell: Tell
  /**
   * How many writes have been refused for long, and still are. People are told of the first one, and of the end of the last one.
   */
  #refused = 0

  constructor(connection: Connection, tell: Tell = () => {}) {
    this.#connection = connection
    this.#tell = tell
  }

  /**
   * Stores something of a run. A run that has ended ran, whatever Redis says, so a lock that expired meanwhile is taken again if
   * nobody has the job.
   *
   * @throws what BullMQ's scripts refuse
   */
  run<T>(held: HeldJob, act: (tries: number) => Promise<T>): Promise<T> {
    const first = act(0) // nearly always the only try, so it costs no promises for others
    return first.catch(() => this.#runAgain(held, first, act))
  }

  async #runAgain<T>(held: HeldJob, first: Promise<T>, act: (tries: number) => Promise<T>): Promise<T> {
    let isTold = false
    for (let tries = 0, refusals = 0; ; tries++)
      try {
        if (tries > 0) await renew(this.#connection, [held])
        const result = await (tries === 0 ? first : act(tries))
        if (isTold) this.#settled(held)
        return result
      } catch (error) {
        if (refusalCode(error) !== undefined) {
          if (isTold) this.#settled(held)
          throw error
        }
        // if there is no connection, the feed says why
        if (this.#connection.isReady && ++refusals === TRIES_UNTOLD) {
          this.#refusedFor(held, error)
          isTold = true
        }
        await sleep(pauseMs(tries))
      }
  }

  #refusedFor({ id }: HeldJob, error: unknown): void {
    if (this.#refused++ > 0) return
    const why = whyNot(error)
    const hint = why.includes('spoold doctor') ? '' : ' (spoold doctor app.ini examines it)'
    this.#tell(
      id,
      `the outcome of its run cannot be stored, and this is tried again until it succeeds: ${why}${hint}`,
    )
  }

  #settled({ id }: HeldJob): void {
    if (--this.#refused === 0) this.#tell(id, 'Redis has answered: what it refused is stored')
  }
}

/**
 * Reports that a ticket claims nothing for a run that was cut short, because a ticket brings any job. The feed learns of that run
 * by its lease (`Feed.lose`), and the job's own next claim settles it.
 */
function ofAnotherJob(ref: Ref, { kind }: LastRun): Report {
  return { ref, kind: kind === 'cancelled' ? 'locked' : 'gone', ranMs: 0 }
}

/** Notes that a claim has begun. @param fence 0: another claim may have the job @returns a report if the claim is lost */
function begun(own: RedisClaim, mark: Mark, fence: number): Report | undefined {
  if (fence > 0) {
    own.mark = mark
    own.fencingToken = fence
    return undefined
  }
  own.isSettled = true
  return { ref: own.ref, name: own.name, kind: 'locked', ranMs: 0 }
}

/** Returns how a task or its terms say that it is delivered; undefined: the option says so. */
function deliveryOf({ job, terms }: Locked): string | undefined {
  return lastValue(job.vars, DELIVERY_KEY) ?? terms?.delivery
}

/** Returns undefined if the claim has been settled or given up. */
function ownOf(claim: Claim): RedisClaim | undefined {
  return claim instanceof RedisClaim && !claim.isSettled ? claim : undefined
}
