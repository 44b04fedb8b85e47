import { createHash } from 'node:crypto'
import { messageOf } from '../../../base/errors.js'
import type { Pause, PausedPair, Pauses } from '../../../base/task/pause.js'
import { baseName, type Ref, toByteString } from '../../../base/task/ref.js'
import { Hide } from '../../../formats/protocol/hide.js'
import { ownersSight } from '../../../formats/protocol/sight.js'
import { changedBy, waitsFor } from '../../cancelled.js'
import type { Purged, PurgeLimits } from '../../contracts/upkeep.js'
import { type AuditEntry, isAuditEntry, seenEntry } from '../../spool/admin/audit.js'
import { type Changed, refused } from '../../spool/admin/change.js'
import { inOrder, type Scan } from '../../spool/admin/in-order.js'
import type { Sort } from '../../spool/admin/listing.js'
import type { Parcel, Received } from '../../spool/admin/move.js'
import { sinceMsOf, TASK_STATES, type TaskState, type TaskView } from '../../spool/admin/task-view.js'
import type { Change, Ended, ListingPlan, Resumed, TaskStore, Wanted } from '../../task-store.js'
import { orderCancel } from '../cancel-orders.js'
import type { Connection } from '../connection.js'
import { RedisEnqueuer } from '../enqueuer.js'
import { readMembers } from '../membership.js'
import { queuesOf, type SpoolQueue } from '../queues.js'
import { bodyIn, jsonIn } from '../task-job.js'
import { RedisUpkeep } from '../upkeep.js'
import { CHANGING, changeJob, remove, TRIES } from './change.js'
import { awaitEnds } from './ends.js'
import { pauseQueues, readPauses, resumeQueues } from './pauses.js'
import { type Peeked, peekAll, SLICE } from './peek.js'
import { idsAt } from './places.js'
import { forgetKey, receive } from './receive.js'
import { moveJob } from './send.js'
import { viewOf } from './task-view.js'
import { idsIn, partsOf } from './walk.js'

/** How many entries of the audit are kept. */
const AUDIT_KEPT = 10_000

type KeyOf = (task: TaskView, nowMs: number) => number

/**
 * The keys to sort by; the smallest comes first. Without a key, the order is that of the store; equal keys are in the order of
 * names.
 */
const KEYS: Partial<Record<Sort, KeyOf>> = {
  name: () => 0,
  priority: ({ file }) => file.sinceMs ?? 0,
  age: (task, nowMs) => sinceMsOf(task, nowMs) ?? nowMs,
  due: ({ dueAtMs }) => dueAtMs,
  attempts: ({ letter, record }) => -((letter ?? record)?.attempts ?? 0),
  bytes: ({ file }) => -file.bytes,
}

/** The tasks of a spool on Redis. */
export class RedisTaskStore implements TaskStore {
  readonly spool: string
  readonly #connection: Connection
  readonly #queues: readonly SpoolQueue[]
  /** The time when the store was opened, by the clock of Redis. */
  readonly #nowMs: number

  private constructor(connection: Connection, queues: readonly SpoolQueue[], nowMs: number) {
    this.spool = toByteString(connection.name)
    this.#connection = connection
    this.#queues = queues
    this.#nowMs = nowMs
  }

  static async open(connection: Connection): Promise<RedisTaskStore> {
    const nowMs = Math.floor(await connection.nowMs())
    return new RedisTaskStore(connection, await queuesOf(connection), nowMs)
  }

  async hide(): Promise<Hide> {
    return new Hide(await this.#hidden())
  }

  async noteHidden(keys: readonly string[]): Promise<void> {
    const { redis } = this.#connection
    const key = this.#connection.key('spoold:hide')
    const over = (await this.#hidden()).filter(each => each !== '' && !keys.includes(each))
    await this.#connection.use(() => redis.sadd(key, '', ...keys))
    if (over.length > 0) await this.#connection.use(() => redis.srem(key, ...over))
  }

  #hidden(): Promise<string[]> {
    return this.#connection.use(() => this.#connection.redis.smembers(this.#connection.key('spoold:hide')))
  }

  async find(id: string): Promise<Ref | undefined> {
    const hash = createHash('sha256').update(id).digest('hex')
    const { redis } = this.#connection
    const key = this.#connection.key(`spoold:id:${hash}`)
    return (await this.#connection.use(() => redis.get(key))) ?? undefined
  }

  async named(name: Ref): Promise<TaskView[]> {
    const there = await this.view(name)
    return there === undefined ? [] : [there]
  }

  async view(ref: Ref): Promise<TaskView | undefined> {
    const job = await this.#peek(ref)
    return job === undefined ? undefined : viewOf(job, this.#nowMs)
  }

  async #peek(ref: Ref): Promise<Peeked | undefined> {
    for (const queue of this.#queues) {
      const [job] = await peekAll(this.#connection, queue, [ref])
      if (job !== undefined) return job
    }
    return undefined
  }

  async *views({ states, mayHave }: Wanted, counted: (count: number) => void = () => {}) {
    const refs: Ref[] = [] // all of them first, because changes meanwhile would disturb the listing
    for (const group of livingThenDead(states))
      for (const part of partsOf(group, this.#nowMs))
        for (const queue of this.#queues)
          for await (const ids of idsIn(this.#connection, queue, part)) refs.push(...ids.filter(mayHave))
    const whole = [...new Set(refs)]
    counted(whole.length)
    for await (const tasks of this.#viewAll(whole)) yield* tasks
  }

  async *#viewAll(refs: readonly Ref[]): AsyncGenerator<TaskView[]> {
    for (let from = 0; from < refs.length; from += SLICE) {
      const slice = refs.slice(from, from + SLICE)
      const found = new Map<Ref, Peeked>()
      for (const queue of this.#queues) {
        const missing = slice.filter(ref => !found.has(ref))
        for (const job of await peekAll(this.#connection, queue, missing)) found.set(job.id, job)
      }
      yield slice.flatMap(ref => {
        const job = found.get(ref)
        return job === undefined ? [] : [viewOf(job, this.#nowMs)]
      })
    }
  }

  /** Lists living tasks, then dead letters; in bounded memory, whatever their number. */
  async list(plan: ListingPlan, take: (task: TaskView) => boolean): Promise<undefined> {
    for (const states of livingThenDead(plan.states ?? TASK_STATES))
      if (!(await this.#listGroup(states, plan, take))) return
  }

  /** @returns false if no more tasks are wanted */
  async #listGroup(
    states: readonly TaskState[],
    plan: ListingPlan,
    take: (task: TaskView) => boolean,
  ): Promise<boolean> {
    const isFit = (task: TaskView) => plan.mayHave(task.ref) && plan.has(task)
    const passOn = (tasks: readonly TaskView[]) => tasks.every(task => !isFit(task) || take(task))
    const keyOf = KEYS[plan.sort]
    if (keyOf === undefined) {
      for await (const tasks of this.#walk(states, plan.isReversed)) if (!passOn(tasks)) return false
      return true
    }
    const byPriority = plan.sort === 'priority'
    const scan: Scan = async offer => {
      for await (const tasks of this.#walk(states, false))
        for (const task of tasks)
          if (isFit(task)) offer(`${prefixFor(task, byPriority)}${task.ref}`, keyOf(task, this.#nowMs))
    }
    for await (const refs of inOrder(scan, { byPriority, isReversed: plan.isReversed }))
      for await (const tasks of this.#viewAll(refs.map(baseName))) if (!passOn(tasks)) return false
    return true
  }

  async *#walk(states: readonly TaskState[], isReversed: boolean): AsyncGenerator<TaskView[]> {
    const parts = partsOf(states, this.#nowMs)
    for (const part of isReversed ? parts.reverse() : parts)
      for (const queue of this.#queues)
        for await (const ids of idsIn(this.#connection, queue, part, isReversed))
          yield (await peekAll(this.#connection, queue, ids))
            .filter(({ place }) => place === part.place) // a job that has moved comes again, or has been listed
            .map(job => viewOf(job, this.#nowMs))
            .filter(({ state }) => states.includes(state))
  }

  async part(states: readonly TaskState[], from: number, most: number, isReversed: boolean) {
    const ids = await idsAt(
      this.#connection,
      { parts: partsOf(states, this.#nowMs), queues: this.#queues, isReversed },
      from,
      most,
    )
    const tasks: TaskView[] = []
    for await (const slice of this.#viewAll(ids)) tasks.push(...slice)
    return { tasks, looked: ids.length }
  }

  async body({ ref }: TaskView, mostBytes = Number.POSITIVE_INFINITY): Promise<Buffer> {
    const { redis } = this.#connection
    for (const queue of this.#queues) {
      const data = await queue.use(() => redis.hget(queue.key(ref), 'data'))
      if (data !== null) return (bodyIn(data) ?? Buffer.alloc(0)).subarray(0, mostBytes)
    }
    throw new Error('it is gone')
  }

  async change(task: TaskView, what: Change, say: (text: string) => void = () => {}): Promise<Changed> {
    if (what.kind === 'move') return moveJob(this.#connection, what.to, () => this.#peek(task.ref))
    for (let tries = 0; tries < TRIES; tries++) {
      const job = await this.#peek(task.ref)
      if (job === undefined) return { kind: 'gone' }
      const changed =
        what.kind === 'replace'
          ? await this.#replace(task, job, what)
          : await changeJob(this.#connection, job, what, this.#nowMs)
      const isToEnd = changed?.kind === 'running' && what.kind === 'cancel'
      const ended = isToEnd ? await this.#end(task.ref, say) : changed
      if (ended !== undefined) return ended
    }
    return refused(CHANGING)
  }

  receive(parcel: Parcel, key: string): Promise<Received> {
    return receive(this.#connection, parcel, key)
  }

  forget(key: string): Promise<void> {
    return forgetKey(this.#connection, key)
  }

  /** Has a running task ended. @returns undefined: the task does not run any more, and has to be looked at again */
  async #end(ref: Ref, say: (text: string) => void): Promise<Changed | undefined> {
    const result = await orderCancel({
      ...{ connection: this.#connection, task: ref },
      isRunning: async () => (await this.#peek(ref))?.place === 'active',
      tell: news => say(waitsFor(news)),
    })
    if (result.result !== 'elsewhere') return changedBy(result)
    const members = await readMembers(this.#connection)
    const known = members.map(({ host, pid }) => `process ${pid} on ${host}`).join(', ') || 'none is known'
    return refused(
      `it is not ended: none of those that run tasks here (${known}) answers that it has this one; the claim of a machine that died ends within seconds`,
    )
  }

  async #replace(
    task: TaskView,
    job: Peeked,
    { request }: Extract<Change, { kind: 'replace' }>,
  ): Promise<Changed | undefined> {
    if (job.place === 'active') return { kind: 'running' }
    const body = await this.body(task)
    const { path } = await new RedisEnqueuer(this.#connection).store(request(task, () => body))
    try {
      const to = path.slice(path.lastIndexOf('/') + 1)
      const removed = await remove(job)
      return removed === undefined
        ? refused(`the edited task is stored as ${path}, but this one runs`)
        : { kind: 'done', to }
    } catch (error) {
      return refused(
        `the edited task is stored as ${path}, but this one cannot be removed: ${messageOf(error)}`,
      )
    }
  }

  async countPurgeable({ maxAgeMs, maxCount }: PurgeLimits): Promise<number> {
    const before = maxAgeMs === null ? Number.NEGATIVE_INFINITY : this.#nowMs - maxAgeMs
    let [all, old] = [0, 0]
    for await (const tasks of this.#walk(['dead'], false)) {
      all += tasks.length
      old += tasks.filter(task => (sinceMsOf(task, this.#nowMs) ?? this.#nowMs) < before).length
    }
    return Math.max(old, maxCount === null ? 0 : all - maxCount)
  }

  purge(limits: PurgeLimits, passed?: () => void, signal?: AbortSignal): Promise<Purged> {
    return new RedisUpkeep(this.#connection).purge(limits, passed, signal)
  }

  awaitEnds(refs: readonly Ref[], tell: (ref: Ref, how: Ended) => void, signal: AbortSignal): Promise<Ref[]> {
    const look = (ref: Ref) => this.view(ref)
    return awaitEnds({ connection: this.#connection, queues: this.#queues, look }, refs, tell, signal)
  }

  pauses(): Promise<Pauses> {
    return readPauses(this.#connection)
  }

  pause(pause: Pause): Promise<Pauses> {
    return pauseQueues(this.#connection, this.#queues, pause)
  }

  resume(which: PausedPair | null | 'all'): Promise<Resumed> {
    return resumeQueues(this.#connection, this.#queues, which)
  }

  async audit(entry: AuditEntry): Promise<void> {
    const { redis } = this.#connection
    const key = this.#connection.key('spoold:audit')
    const line = JSON.stringify(seenEntry(entry, ownersSight(await this.hide())))
    await this.#connection.use(() => redis.lpush(key, line))
    await this.#connection.use(() => redis.ltrim(key, 0, AUDIT_KEPT - 1))
  }

  /** Returns the last entries, the newest first. */
  async readAudit(most: number): Promise<AuditEntry[]> {
    const { redis } = this.#connection
    const key = this.#connection.key('spoold:audit')
    const lines = await this.#connection.use(() => redis.lrange(key, 0, most - 1))
    return lines.map(jsonIn).filter(isAuditEntry)
  }
}

function livingThenDead(states: readonly TaskState[]): TaskState[][] {
  return [states.filter(state => state !== 'dead'), states.filter(state => state === 'dead')]
}

/** Returns the priority as the beginning of a path, because a window sorts by that. */
function prefixFor({ priority }: TaskView, byPriority: boolean): string {
  return byPriority && priority !== undefined && priority !== null ? `${priority}/` : ''
}
