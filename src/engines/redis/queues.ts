import { randomUUID } from 'node:crypto'
import { messageOf, toError } from '../../base/errors.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Report } from '../../base/task/report.js'
import type { NamedSlots } from '../../base/task/terms.js'
import type { Begun, Mark } from './begins.js'
import type { Connection } from './connection.js'
import type { Client, JobJson, Queue, RedisQueueBackend } from './libraries.js'
import type { HeldJob } from './refs.js'
import { commandOf } from './scripts.js'
import { isUnreadable } from './store-failure.js'
import { NEW_RECORD, type TaskRecord } from './task-job.js'

/** Returns the number with which a script of BullMQ refuses an operation on a job; undefined if the error is no such refusal. */
export function refusalCode(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'number' ? error.code : undefined
}

type MinimalJob = Parameters<RedisQueueBackend['moveToCompletedArgs']>[0]

/** The records of jobs that begin for the first time. */
const RECORDS: Readonly<Record<Mark, string>> = {
  'died-alone': firstRecord('died-alone'),
  'died-beside': firstRecord('died-beside'),
  'died-once': firstRecord('died-once'),
}

function firstRecord(past: Mark): string {
  return JSON.stringify({ ...NEW_RECORD, past })
}

/** A job that is due so much later may be due when a pull reads the clock. */
const AHEAD_MS = 1000
/** Why a job that strangers have stored is a dead letter. */
const UNREADABLE = 'its job cannot be read: it was not stored as a task'

/** Thrown for a pulled job that cannot be read. The job is set aside. */
export class Unreadable extends Error {
  readonly id: string | undefined

  constructor(id: string | undefined, why: string) {
    super(`${UNREADABLE} (${why})`)
    this.id = id
  }
}

/** A job that was pulled when another one was removed. */
export interface Fetched {
  readonly json: JobJson
  readonly token: string
  /** Undefined: the job has not begun. */
  readonly early: Begun | undefined
}

/** A queue of a spool: the one that tasks are stored in, or that of the tasks of one name, of which only so many may run. */
export class SpoolQueue {
  readonly connection: Connection
  /** The name of its tasks; undefined: the spool's own queue. */
  readonly task: string | undefined
  /** The queue's name in BullMQ. No spool has an @ in its name. */
  readonly name: string

  constructor(connection: Connection, task?: string) {
    this.connection = connection
    this.task = task
    const { queue } = connection.address
    this.name = task === undefined ? queue : `${queue}@${encodeURIComponent(task)}`
  }

  /** @see Connection.key */
  key(type: string): string {
    return this.connection.key(type, this.name)
  }

  /** @see Connection.use */
  use<T>(operation: (queue: Queue, client: Client) => Promise<T>): Promise<T> {
    return this.connection.use(operation, undefined, this.name)
  }

  /** Removes a job. @returns how many jobs were removed: 0 if a worker has its lock */
  async remove(job: string): Promise<number> {
    try {
      return await this.use(async queue => {
        // BullMQ forgets the identity together with the job, but somebody may still ask for it
        const [, removed] = await Promise.all([
          this.connection.redis.hdel(this.key(job), 'deid'),
          queue.getBackend().remove(job, false),
        ])
        return removed
      })
    } catch (error) {
      if (!isUnreadable(error)) throw error
      const keys = [job, 'wait', 'prioritized', 'delayed', 'failed'].map(type => this.key(type))
      return Number(await this.connection.run('removeNoJob', ...keys, job))
    }
  }

  // the methods below are for whoever has the lock of a job, and fail without it

  /** Pulls a job. @returns the most urgent job that is due; undefined: there is none @throws Unreadable */
  async pull(token: string): Promise<JobJson | undefined> {
    const args = [this.key('delayed'), this.key(''), Date.now() + AHEAD_MS]
    const [json, id] = await this.#read(token, () =>
      this.use(async (queue, client) => {
        const before = client.runCommand(commandOf('beforePull'), args) // sent first, and not waited for
        const [pulled] = await Promise.all([queue.getBackend().moveToActive(token), before])
        return pulled
      }),
    )
    return json === null || json === undefined ? undefined : { ...json, id }
  }

  /** Takes over a job that a master holds. @returns undefined: the master no longer holds it @throws Unreadable */
  async takeOver(held: HeldJob, token: string): Promise<JobJson | undefined> {
    if (!(await this.handOver(held, token))) return undefined
    const json = await this.#read(token, () => this.use(queue => queue.getBackend().getJobData(held.id)))
    return json === undefined ? undefined : { ...json, id: held.id }
  }

  /** Pulls a job, and sets it aside if it cannot be read, as one dead letter: put back, it would be the first again. */
  async #read<T>(token: string, pull: () => Promise<T>): Promise<T> {
    try {
      return await pull()
    } catch (error) {
      if (!isUnreadable(error)) throw error
      const isOfRedis = toError(error).name === 'ReplyError'
      const id = await this.setAside(token, UNREADABLE, isOfRedis)
      if (id === undefined && isOfRedis) throw error // a key of the queue has another type
      throw new Unreadable(id, messageOf(error))
    }
  }

  /**
   * Makes a dead letter of a pulled job that is no task; BullMQ's own script would read the job.
   *
   * @param unlessReadable true: only if Redis cannot read it
   * @returns its id
   */
  async setAside(token: string, why: string, unlessReadable = false): Promise<string | undefined> {
    const keys = ['active', 'failed', 'events', ''].map(type => this.key(type))
    const nowMs = Math.floor(await this.connection.nowMs())
    const args = [token, nowMs, why, unlessReadable ? 1 : 0]
    const [id] = (await this.connection.run('setAside', ...keys, ...args)) as string[]
    return id
  }

  /** Hands the lock of a job on. @param to the token that the lock has from now on */
  async handOver({ id, token }: HeldJob, to: string): Promise<boolean> {
    const { lockMs } = this.connection
    return (await this.connection.run('handOver', this.#lock(id), token, to, lockMs)) === 1
  }

  /** Returns why `pull` found nothing. */
  async whyNone(): Promise<Pick<Report, 'kind' | 'atMs'>> {
    const { redis } = this.connection
    const [running, [, score]] = await this.use(() =>
      Promise.all([
        redis.llen(this.key('active')),
        redis.zrange(this.key('delayed'), '0', '0', 'WITHSCORES'),
      ]),
    )
    if (running > 0) return { kind: 'locked' }
    return score === undefined ? { kind: 'gone' } : { kind: 'later', atMs: Math.floor(Number(score) / 4096) }
  }

  /** Stores the record of a job. @returns false: another claim may have the job */
  async mark({ id, token }: HeldJob, record: TaskRecord): Promise<boolean> {
    const written = await this.connection.run(
      'writeRecord',
      ...[this.#lock(id), this.key(id), token, JSON.stringify(record)],
    )
    return written === 1
  }

  /**
   * Removes a job that is done.
   *
   * @param pullsNext true: the same command also pulls the next job
   * @param mark the mark with which the next job begins, if it has no record yet
   */
  removeDone(
    json: JobJson,
    token: string,
    pullsNext: boolean,
    mark: Mark | undefined,
  ): Promise<Fetched | undefined> {
    const job = json as unknown as MinimalJob // its id and its options are all that is read
    return this.use((queue, client) => {
      const backend = queue.getBackend() as RedisQueueBackend
      const args = backend.moveToCompletedArgs(job, 'null', true, token, pullsNext) as Array<string | number>
      args.push(token, mark === undefined ? '' : RECORDS[mark])
      return client
        .runCommand(commandOf('removeAndBegin'), args)
        .then(reply => this.#fetched(reply, json.id, token, mark))
    })
  }

  #fetched(reply: unknown, removed: string, token: string, past: Mark | undefined): Fetched | undefined {
    if (typeof reply === 'number' && reply < 0)
      throw Object.assign(new Error(`job ${removed} could not be removed (${reply})`), { code: reply })
    const json = this.connection.jobIn(reply)
    if (json === undefined) return undefined
    const fence = Array.isArray(reply) ? Number(reply[4] ?? 0) : 0
    return { json, token, early: past === undefined || fence === 0 ? undefined : { past, fence } }
  }

  // the next two write BullMQ's count of attempts anew: BullMQ adds to it while the job is in no list, and fails if it is no number

  async bury(json: JobJson, token: string, record: TaskRecord, why: string): Promise<void> {
    const fields = { progress: JSON.stringify(record), atm: Math.max(0, record.attempts - 1) } // BullMQ adds this one
    await this.use(async queue => {
      const job = this.connection.jobOf(queue, json)
      await queue.getBackend().moveToFailed(job, why, false, token, false, fields)
    })
  }

  /** Delays a job. @returns when the job is due; epoch ms */
  async delay(id: string, token: string, delayMs: number, record: TaskRecord): Promise<number> {
    const nowMs = Math.floor(await this.connection.nowMs())
    const dueAtMs = nowMs + Math.ceil(delayMs)
    const progress = JSON.stringify({ ...record, dueAtMs })
    const options = { skipAttempt: true, fieldsToUpdate: { progress, holder: '', atm: record.attempts } }
    await this.use(queue => queue.getBackend().moveToDelayed(id, nowMs, dueAtMs - nowMs, token, options))
    return dueAtMs
  }

  /** Puts a job back. It is the first of its priority again. */
  async putBack(id: string, token: string): Promise<void> {
    await this.use(queue => queue.getBackend().moveJobFromActiveToWait(id, token))
  }

  /** Makes a job due whose worker is gone, and notes how its run was cut short, for its next claim. */
  async cutShort({ id, token }: HeldJob, lastRun: LastRun): Promise<void> {
    const told = await this.connection.run(
      'cutShort',
      ...[this.#lock(id), this.key(id), token, JSON.stringify(lastRun)],
    )
    if (told === 1) await this.putBack(id, token)
    if (told === 2) await this.setAside(token, UNREADABLE)
  }

  /** Returns the ids of the jobs that have been pulled, and whose locks nobody has. */
  async unlocked(): Promise<readonly string[]> {
    return (await this.connection.run('unlocked', this.key('active'), this.key(''))) as string[]
  }

  /** Makes a job due whose lock nobody has. */
  async recover(id: string): Promise<void> {
    const keys = [this.key('active'), this.key(id), this.#lock(id), this.key('stalled')]
    const token = randomUUID()
    const taken = await this.connection.run('takeUnlocked', ...keys, id, token, this.connection.lockMs)
    if (taken === 1) await this.putBack(id, token)
    if (taken === 2) await this.setAside(token, UNREADABLE)
  }

  /**
   * Moves a job to the end of its priority in the queue of its task, from which jobs are pulled while fewer than the limit are
   * active.
   */
  async limit(id: string, token: string, to: SpoolQueue, { name, count }: NamedSlots): Promise<void> {
    await this.connection.run(
      'limit',
      ...[limitedKey(this.connection), this.key('events')],
      ...[this.key(''), name, to.key(''), count, id, token],
    )
  }

  /** Moves a job into the spool's own queue, where it is active. @returns false: another claim may have the job */
  async handOverUnlimited({ id, token }: HeldJob, to: string): Promise<boolean> {
    const { lockMs } = this.connection
    const [active, own] = [this.connection.key('active'), this.connection.key('')]
    const args = [active, this.key(''), own, id, token, to, lockMs]
    return (await this.connection.run('unlimit', ...args)) === 1
  }

  #lock(id: string): string {
    return `${this.key(id)}:lock`
  }
}

/** Returns the key of the hash of task names that have, or had, `maxConcurrency`, each with the prefix of its queue's keys. */
export function limitedKey(connection: Connection): string {
  return connection.key('spoold:limited')
}

/** Returns all queues that may have tasks of this spool, its own first. */
export async function queuesOf(connection: Connection): Promise<readonly SpoolQueue[]> {
  const tasks = await connection.use(() => connection.redis.hkeys(limitedKey(connection)))
  return [undefined, ...tasks.sort()].map(task => new SpoolQueue(connection, task))
}

/** Extends locks. A lock that expired is taken again if nobody else has had the job since. */
export async function renew(connection: Connection, locks: readonly HeldJob[]): Promise<void> {
  if (locks.length === 0) return
  const prefixes = new Map<string | undefined, string>()
  for (const { task } of locks)
    if (!prefixes.has(task)) prefixes.set(task, new SpoolQueue(connection, task).key(''))
  const args = locks.flatMap(({ id, token, task }) => [prefixes.get(task) ?? '', id, token])
  await connection.run('renew', connection.key('active'), connection.lockMs, ...args)
}
