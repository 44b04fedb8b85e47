import { randomBytes } from 'node:crypto'
import { endOf } from '../../base/clock.js'
import type { Emitter } from '../../base/events/emitter.js'
import { type FeedReason, PARK_REASONS, type ParkReason, parkedByReason } from '../../base/task/parked.js'
import type { Ref } from '../../base/task/ref.js'
import type { Report, ReportKind } from '../../base/task/report.js'
import type { NamedSlots } from '../../base/task/terms.js'
import type {
  CutShort,
  FeedLoss,
  FeedNews,
  FeedState,
  FeedStats,
  LeaseKeeper,
  LookHint,
  Source,
} from '../feed.js'
import type { Connection } from './connection.js'
import { LeftJobs } from './left-jobs.js'
import { renew, SpoolQueue } from './queues.js'
import { changeJob } from './records/change.js'
import { peekAll } from './records/peek.js'
import { idsIn, scoreOf } from './records/walk.js'
import { type HeldJob, heldRef, jobOfLease, ticketOf, tokenFor } from './refs.js'
import { isUnreadable, unlessUnreadable } from './store-failure.js'
import { jsonIn, recordOf, UNWANTED_CAP_MS } from './task-job.js'
import { Tickets } from './tickets.js'
import { NOTHING_SEEN, type SpoolView, statsFrom, sumOf } from './view.js'
import { REGULAR_MS, Watch } from './watch.js'

/** The kinds of reports by workers that found no job: another worker was faster, or the count was old. */
const EMPTY: ReadonlySet<ReportKind> = new Set(['gone', 'locked', 'parked', 'unreadable'])

/** How long a master that ends waits until Redis has taken back what its workers had. */
const END_MS = 1000

/** The jobs whose locks a master has, because the workers that pulled them may not run them now. */
class HeldJobs {
  readonly #waiting = new Map<FeedReason, HeldJob[]>()
  readonly #given = new Map<Ref, HeldJob>()

  /** Returns how many jobs wait to be given away, for one reason or for any. */
  count(reason?: FeedReason): number {
    if (reason !== undefined) return this.#waiting.get(reason)?.length ?? 0
    return [...this.#waiting.values()].reduce((sum, { length }) => sum + length, 0)
  }

  /** All jobs, given away or not. */
  get all(): HeldJob[] {
    return [...this.#given.values(), ...[...this.#waiting.values()].flat()]
  }

  add(reason: FeedReason, job: HeldJob): void {
    const jobs = this.#waiting.get(reason) ?? []
    jobs.push(job)
    this.#waiting.set(reason, jobs)
  }

  /** Gives jobs to workers that may run them. @returns their refs */
  give(reason: FeedReason, limit: number): Ref[] {
    return (this.#waiting.get(reason)?.splice(0, limit) ?? []).map(job => {
      const ref = heldRef(job)
      this.#given.set(ref, job)
      return ref
    })
  }

  /** Takes back a ref that a worker no longer has. @returns its job; undefined: the ref was a ticket */
  takeBack(ref: Ref): HeldJob | undefined {
    const job = this.#given.get(ref)
    this.#given.delete(ref)
    return job
  }

  /** Stops holding the jobs that wait, and returns them. @param reason absent: for any reason */
  release(reason?: FeedReason): HeldJob[] {
    const reasons = reason === undefined ? [...this.#waiting.keys()] : [reason]
    return reasons.flatMap(each => {
      const jobs = this.#waiting.get(each) ?? []
      this.#waiting.delete(each)
      return jobs
    })
  }
}

/**
 * A spool on Redis, as one master sees it. The feed gives tickets; which job a worker gets for a ticket is decided when the
 * worker claims. A job that a worker may not run for a reason that ends (it must be alone) is held: the master has its lock until
 * another worker takes it over.
 */
export class RedisFeed implements Source {
  readonly #connection: Connection
  readonly #looks: Connection
  readonly #watch: Watch
  #view = NOTHING_SEEN
  readonly #tickets = new Tickets(randomBytes(6).toString('hex'))
  /** The refs that were given away. */
  readonly #busy = new Set<Ref>()
  readonly #held = new HeldJobs()
  /** The jobs of workers that have ended, and of refs that will not be reported. */
  readonly #left: LeftJobs
  /** Resolves when Redis has answered all that it was told of jobs that nobody runs. */
  #told = Promise.resolve()
  /** Jobs that are parked for their names, and delayed: until when, by id; epoch ms. */
  readonly #putOff = new Map<string, number>()
  /** Whether the tasks that were put off before these handlers were loaded have been made due. */
  #putOffBefore: 'unseen' | 'offering' | 'offered' = 'unseen'
  /** True if a worker found nothing although something was due. */
  #wasEmpty = false
  #isOpen = false
  /** True if Redis answers, and the spool cannot be read until a person repairs it: no more tasks of it are found. */
  #isUnreadable = false
  #wakeUp = () => {}
  #leave = () => {}

  /**
   * @param watched a second connection to the same spool, which is closed with this feed
   * @param looks a connection whose operations do not hold the process, if there is one
   */
  constructor(connection: Connection, watched: Connection, events?: Emitter, looks = connection) {
    this.#connection = connection
    this.#looks = looks
    this.#left = new LeftJobs(looks)
    const spool = connection.name
    this.#watch = new Watch(looks, watched, {
      seen: (view, most) => this.#seen(view, most),
      unreachable: error => {
        this.#isUnreadable = isUnreadable(new Error(error))
        events?.emit('spool-unreachable', { spool, error, isLasting: this.#isUnreadable })
      },
      deaf: error => {
        events?.emit('watch-lost', { spool, of: 'Redis', prefix: '', error, frequencyMs: REGULAR_MS })
      },
      hearing: () => events?.emit('watch-back', { spool, of: 'Redis' }),
      reachedAgain: () => {
        this.#isUnreadable = false
        events?.emit('spool-reached', { spool })
      },
    })
  }

  async open(wakeUp: () => void): Promise<void> {
    this.#isOpen = true
    this.#wakeUp = wakeUp
    this.#leave = this.#looks.stay()
    await this.#watch.open()
  }

  #seen(view: SpoolView, most: number): void {
    const before = this.state
    this.#view = view
    if (this.#putOffBefore === 'unseen') void this.#offerPutOff()
    this.#tickets.see(view, most)
    if (this.#wasEmpty && this.#tickets.ready > 0) this.#watch.slowDown()
    this.#wasEmpty = false
    for (const [id, atMs] of this.#putOff) if (atMs <= view.nowMs) this.#putOff.delete(id)
    const { ready, waiting, isDrained } = this.state
    const isNews = ready > 0 || waiting !== before.waiting || isDrained !== before.isDrained
    if (isNews && this.#isOpen) this.#wakeUp()
  }

  /** Makes tasks due that were put off because no handler took them: the handlers of this daemon may do so. */
  async #offerPutOff(): Promise<void> {
    this.#putOffBefore = 'offering'
    const connection = this.#looks
    const queue = new SpoolQueue(connection)
    try {
      const nowMs = await connection.nowMs()
      const part = {
        place: 'delayed',
        min: scoreOf(nowMs),
        max: scoreOf(nowMs + UNWANTED_CAP_MS),
      } as const
      for await (const ids of idsIn(connection, queue, part)) {
        const texts = await connection.use(() =>
          Promise.all(
            ids.map(id => connection.redis.hget(queue.key(id), 'progress').catch(unlessUnreadable)),
          ),
        )
        const records = texts.map(text => recordOf({ progress: jsonIn(text ?? '') }))
        const putOff = ids.filter((_, i) => (records[i]?.unwanted ?? 0) > 0)
        for (const job of await peekAll(connection, queue, putOff))
          await changeJob(connection, job, { kind: 'kick' }, nowMs)
      }
      this.#putOffBefore = 'offered'
      this.#watch.look()
    } catch {
      this.#putOffBefore = 'unseen' // Redis is away, or refuses: the next regular look tries again
    }
  }

  /** @see Feed.take. It never has tasks that follow another one on its slot. */
  take(limit: number, from?: FeedReason | NamedSlots): readonly Ref[] {
    if (typeof from === 'object') return []
    const refs = from === undefined ? this.#tickets.take(limit) : this.#held.give(from, limit)
    for (const ref of refs) this.#busy.add(ref)
    return refs
  }

  #parkedFor(reason: ParkReason): number {
    if (reason === 'slot') return this.#tickets.slotQueues.reduce((sum, { parked }) => sum + parked, 0)
    const unknown = reason === 'unknown-name' ? this.#putOff.size + this.#tickets.unknown : 0
    return this.#held.count(reason) + unknown
  }

  /** The reason no longer holds. */
  changed(what: FeedReason | 'handlers'): void {
    if (what === 'handlers') {
      this.#tickets.handlersReplaced()
      this.#putOff.clear()
      this.#putOffBefore = 'unseen'
      this.#watch.look()
    }
    for (const job of this.#held.release(what === 'handlers' ? 'unknown-name' : what)) this.#putBack(job)
    this.#wakeUp()
  }

  report({ claimed, done = [], returned = [] }: FeedNews): void {
    for (const ref of claimed ?? []) this.#tickets.claimed(ref)
    if (claimed !== undefined) this.#watch.relax()
    for (const ref of done) this.#takeBack(ref, true)
    for (const report of returned) this.#returned(report)
    if (done.length + returned.length > 0) this.#watch.look()
  }

  #returned({ ref, name, kind, reason, atMs, slots, detail }: Report): void {
    if (kind === 'locked' && name === undefined && detail !== undefined) this.#watch.refused(detail)
    const isUnclaimed = this.#tickets.isUnclaimed(ref) && kind !== 'untouched'
    const isRefused =
      isUnclaimed && ticketOf(ref).task !== undefined && kind === 'parked' && atMs === undefined
    if (isRefused && (reason === 'slot' || reason === 'unknown-name')) this.#tickets.refused(ref, reason)
    this.#takeBack(ref, kind !== 'untouched')
    if (isUnclaimed && name === undefined && EMPTY.has(kind)) this.#wasEmpty = true
    if (kind !== 'parked' || name === undefined || reason === undefined || reason === 'slot') return
    if (atMs !== undefined) this.#putOff.set(name, atMs)
    else if (!isRefused || reason !== 'unknown-name')
      this.#held.add(reason, { id: name, token: tokenFor(ref), task: slots?.name })
  }

  lose({ refs, cutShort = [], worker }: FeedLoss): void {
    for (const each of cutShort) this.#cutShort(each)
    if (worker !== undefined) this.#left.add([worker.identity], worker.leases)
    if (refs !== undefined) this.#abandoned(refs)
  }

  /**
   * Takes back refs that will not be reported. A worker may have handed a lock over for one of them without being able to report
   * it.
   */
  #abandoned(refs: readonly Ref[]): void {
    this.#left.add(refs.map(tokenFor))
    for (const ref of refs) {
      const job = this.#takeBack(ref, false)
      if (job !== undefined) this.#putBack(job)
    }
    this.#watch.look()
  }

  /** @param isPulled true if a job left the queue for this ref */
  #takeBack(ref: Ref, isPulled: boolean): HeldJob | undefined {
    this.#busy.delete(ref)
    this.#tickets.takeBack(ref, isPulled)
    return this.#held.takeBack(ref)
  }

  /** Puts a job back into its queue, where it is the first of its priority, unless a worker has taken the job over. */
  #putBack(job: HeldJob): void {
    this.#tickets.putBack(job.task)
    // if that fails, its lock expires, if this master still has it
    this.#tell(
      this.#queueOf(job)
        .putBack(job.id, job.token)
        .catch(() => {}),
    )
  }

  #cutShort({ lastRun, lease }: CutShort): void {
    const job = jobOfLease(lease)
    if (job !== undefined) this.#tell(this.#left.cutShort(job, lastRun))
  }

  #tell(sent: Promise<void>): void {
    const answered = sent.then(() => this.#watch.look())
    this.#told = this.#told.then(() => answered)
  }

  #queueOf({ task }: HeldJob): SpoolQueue {
    return new SpoolQueue(this.#connection, task)
  }

  get leases(): LeaseKeeper {
    return {
      everyMs: this.#connection.lockMs / 3,
      keep: leases => {
        const jobs = [...leases.flatMap(lease => jobOfLease(lease) ?? []), ...this.#held.all]
        renew(this.#connection, jobs).catch(() => {}) // the next renewal takes expired locks again, if nobody else has
      },
      refOf: lease => {
        const job = jobOfLease(lease)
        return job === undefined ? undefined : heldRef(job)
      },
      settled: async () => {
        if (this.#connection.isReady)
          await endOf(Promise.all([this.#told, this.#left.lookOnceMore()]), END_MS)
        this.#left.close()
      },
      batchMs: 20, // a ticket keeps no task from others, and a worker without one asks Redis once more
    }
  }

  /** Looks at once. A frequency has no effect, because events come from Redis, and ignored tasks are delayed there. */
  look({ everyMs }: LookHint = {}): void {
    if (everyMs === undefined && this.#isOpen) this.#watch.look()
  }

  get state(): FeedState {
    const parked = parkedByReason(reason => this.#parkedFor(reason))
    const { size: busy } = this.#busy
    const waiting = sumOf(this.#view, 'later') + this.#held.count() + parked.slot + this.#tickets.unknown
    const isDone = this.#tickets.due === 0 && busy === 0 && parked.alone + parked.crashed === 0
    const isWhole = isDone && this.#putOffBefore === 'offered' && this.#watch.isCurrent
    const isDrained = this.#isOpen && (isWhole || (this.#isUnreadable && busy === 0))
    return { ready: this.#tickets.ready, busy, waiting, parked, isDrained, stalledMs: 0 }
  }

  stats(): FeedStats {
    const { busy, waiting } = this.state
    const { notGiven: ready } = this.#tickets
    const parked = PARK_REASONS.map(reason => [reason, this.#parkedFor(reason)] as const)
    const isWhole = this.#view !== NOTHING_SEEN
    const elsewhere = Math.max(0, this.#tickets.active - this.#tickets.claimedCount - this.#held.all.length)
    return {
      ...{ ready, busy, waiting },
      ...{ unseen: 0, unseenSinceMs: null, unreadable: 0 },
      ...{ later: sumOf(this.#view, 'later'), held: sumOf(this.#view, 'held') },
      isWhole,
      elsewhere,
      tasks: isWhole ? ready + busy + waiting + elsewhere : null,
      countedAtMs: null,
      ...statsFrom(this.#view, queue => this.#tickets.isDue(queue)),
      parked: Object.fromEntries(parked.filter(([, count]) => count > 0)),
      slotQueues: this.#tickets.slotQueues,
      look: null,
    }
  }

  close(): void {
    this.#isOpen = false
    this.#wakeUp = () => {}
    for (const job of this.#held.release()) this.#putBack(job)
    this.#watch.close()
    this.#leave()
  }
}
