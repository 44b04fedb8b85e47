import { createHash, randomUUID } from 'node:crypto'
import { SpooldError, toError } from '../../base/errors.js'
import { HEADER_BYTES } from '../../protocol/header.js'
import { parseVars } from '../../protocol/vars.js'
import type { Request, Stored } from '../../task/request.js'
import { wholeBody } from '../body.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import type { Connection } from './connection.js'
import type { JobJson, Queue } from './libraries.js'
import { commandOf } from './scripts.js'
import { dataOf, jobNameOf, jobPriority, MAX_TASK_BYTES } from './task-job.js'

/** A request whose body is whole, as a job. */
interface Draft {
  readonly json: JobJson
  /** The hash of the caller's own id. */
  readonly id: string | undefined
}

/** Stores tasks as jobs of a queue. */
export class RedisEnqueuer implements Enqueuer {
  readonly #connection: Connection
  /** A connection watches ids for one transaction at a time. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(connection: Connection) {
    this.#connection = connection
  }

  get name(): string {
    return this.#connection.name
  }

  async store(request: Request): Promise<Stored> {
    const [result] = await this.storeAll([request])
    if (result === undefined || 'error' in result) throw result?.error
    return result.stored
  }

  async storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<readonly StoreResult[]> {
    const nowMs = await this.#nowMs()
    if (nowMs instanceof Error) return requests.map(() => ({ error: nowMs }))
    const drafts = await Promise.all(requests.map(request => draftOf(request, nowMs).catch(toError)))
    const failure = drafts.find(draft => draft instanceof Error)
    if (isAllOrNothing && failure !== undefined) return requests.map(() => ({ error: failure as Error }))
    const whole = drafts.flatMap(draft => (draft instanceof Error ? [] : draft))
    const stored = whole.length === 0 ? [] : await this.#inTurn(() => this.#add(whole)).catch(toError)
    let next = 0
    return drafts.map(draft => {
      if (draft instanceof Error) return { error: draft }
      if (stored instanceof Error) return { error: stored }
      return { stored: stored[next++] as Stored }
    })
  }

  async #nowMs(): Promise<number | Error> {
    try {
      return Math.floor(await this.#connection.nowMs())
    } catch (error) {
      return this.#failure(error)
    }
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#last.then(act)
    this.#last = result.catch(() => {})
    return result
  }

  /** All of them, or none. */
  async #add(drafts: readonly Draft[]): Promise<Stored[]> {
    try {
      return await this.#connection.use(async queue => {
        for (;;) {
          const stored = await this.#tryToAdd(queue, drafts)
          if (stored !== undefined) return stored
        }
      })
    } catch (error) {
      throw this.#failure(error)
    }
  }

  /** @returns undefined: somebody else has just stored a task with one of the ids */
  async #tryToAdd(queue: Queue, drafts: readonly Draft[]): Promise<Stored[] | undefined> {
    const { redis } = this.#connection
    const ids = drafts.flatMap(({ id }) => id ?? [])
    /** The jobs of ids, those of this batch included. */
    const known = new Map<string, string>()
    if (ids.length > 0) {
      await redis.watch(ids.map(id => this.#idKey(id)))
      const jobs = await redis.mget(ids.map(id => this.#idKey(id)))
      for (const [i, job] of jobs.entries()) if (job !== null) known.set(ids[i] ?? '', job)
    }
    const backend = queue.getBackend()
    const transaction = (await backend.client).multi()
    const stored = drafts.map(({ json, id }): Stored => {
      const before = id === undefined ? undefined : known.get(id)
      if (before !== undefined) return { path: `${this.name}/${before}`, isDuplicate: true }
      void backend.addJobToTransaction(transaction, json, json.id)
      if (id !== undefined) {
        known.set(id, json.id)
        const keys = [this.#idKey(id), this.#connection.key('spoold:ids')]
        transaction.runCommand(commandOf('rememberId'), [...keys, id, json.id, json.timestamp])
      }
      return { path: `${this.name}/${json.id}`, isDuplicate: false }
    })
    const replies = await transaction.exec()
    for (const [error] of replies ?? []) if (error !== null) throw error
    return replies === null ? undefined : stored
  }

  #idKey(id: string): string {
    return this.#connection.key(`spoold:id:${id}`)
  }

  #failure(error: unknown): Error {
    if (error instanceof SpooldError) return error
    const { name, fault, isReady } = this.#connection
    if (!isReady || /timed out|closed/i.test(toError(error).message))
      return new SpooldError('REDIS_UNANSWERED', `${fault}; the task may have been stored`, { cause: error })
    return new SpooldError('ENQUEUE_FAILED', `${name}: ${toError(error).message}`, { cause: error })
  }
}

/** @throws SpooldError REQUEST_INVALID, and what the body throws */
async function draftOf(request: Request, nowMs: number): Promise<Draft> {
  const { packet, id } = request
  const priority = jobPriority(request.priority)
  const body = await wholeBody(request, MAX_TASK_BYTES - packet.length)
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  if ('fault' in vars) throw new SpooldError('REQUEST_INVALID', vars.fault)
  const delay = Math.max(0, (request.atSeconds ?? 0) * 1000 - nowMs)
  return {
    json: {
      ...{ id: randomUUID(), name: jobNameOf(vars), data: dataOf(packet, body), timestamp: nowMs },
      opts: { priority, delay, attempts: 1 },
      ...{ delay, priority, attemptsMade: 0, attemptsStarted: 0, stalledCounter: 0 },
      ...{ progress: 0, failedReason: '', returnvalue: '' },
    },
    id: id === undefined ? undefined : createHash('sha256').update(id).digest('hex'),
  }
}
