import { toError } from '../../base/errors.js'
import { isThenable } from '../../base/promise.js'
import type { Request, Stored } from '../../base/task/request.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import type { Connection } from './connection.js'
import { addKey, type Draft, draftOf, wholeRequest } from './drafts.js'
import { Forgetting } from './forgetting.js'
import { addAll, addOne } from './once.js'
import { storeFailure } from './store-failure.js'

interface RedisEnqueuerOptions {
  /** How long to wait for a connection. */
  readonly patienceMs?: number
  /**
   * True: the identities of stored tasks are kept until `forget` names them. Otherwise they are forgotten as soon as the reply is
   * seen.
   */
  readonly remembers?: boolean
}

/**
 * Tasks that wait meanwhile are stored together next, up to this many tasks, and this many bytes unless one group alone has more.
 */
const TOGETHER = 64
const TOGETHER_BYTES = 1024 * 1024

/** The tasks of one caller. All of them are stored, or none. */
interface Group {
  readonly drafts: readonly Draft[]
  stored(stored: readonly Stored[]): void
  failed(error: Error): void
}

/**
 * Stores tasks as jobs of a queue. Redis remembers the identity of each task in the step that adds it. So a task is stored once,
 * however often somebody tries, and a lost reply leaves nothing in doubt.
 */
export class RedisEnqueuer implements Enqueuer {
  readonly #connection: Connection
  readonly #options: RedisEnqueuerOptions
  readonly #forgetting: Forgetting
  #waiting: Group[] = []
  #isStoring = false

  constructor(connection: Connection, options: RedisEnqueuerOptions = {}) {
    this.#connection = connection
    this.#options = options
    this.#forgetting = new Forgetting(connection)
  }

  get name(): string {
    return this.#connection.name
  }

  async store(request: Request): Promise<Stored> {
    const nowMs = this.#connection.knownNowMs ?? (await this.#nowMs())
    const whole = wholeRequest(request)
    const draft = draftOf(isThenable(whole) ? await whole : whole, Math.floor(nowMs))
    if (this.#mayAdd(draft)) return this.#addOne(draft)
    const [stored] = await this.#inTurn([draft])
    return stored as Stored
  }

  async storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<readonly StoreResult[]> {
    const now = this.#connection.knownNowMs ?? (await this.#nowMs().catch(toError))
    if (now instanceof Error) return requests.map(() => ({ error: now }))
    const drafts: Array<Draft | Error> = []
    for (const request of requests)
      try {
        const whole = wholeRequest(request)
        drafts.push(draftOf(isThenable(whole) ? await whole : whole, Math.floor(now)))
      } catch (error) {
        drafts.push(toError(error))
      }
    const failure = drafts.find(draft => draft instanceof Error)
    if (isAllOrNothing && failure !== undefined) return requests.map(() => ({ error: failure as Error }))
    const whole = drafts.flatMap(draft => (draft instanceof Error ? [] : draft))
    const results = await this.#storeDrafts(whole, isAllOrNothing)
    let next = 0
    return drafts.map(draft => (draft instanceof Error ? { error: draft } : (results[next++] as StoreResult)))
  }

  async #storeDrafts(drafts: readonly Draft[], isAllOrNothing: boolean): Promise<readonly StoreResult[]> {
    const isEach = !isAllOrNothing && drafts.every(draft => this.#mayAdd(draft))
    return isEach
      ? Promise.all(drafts.map(draft => this.#addOne(draft).then(resultOf, failureOf)))
      : this.#inTurn(drafts).then(
          all => all.map(resultOf),
          error => drafts.map(() => failureOf(error)),
        )
  }

  /** @throws SpooldError */
  async #nowMs(): Promise<number> {
    try {
      return await this.#connection.nowMs(this.#options.patienceMs)
    } catch (error) {
      throw storeFailure(this.#connection, error, false)
    }
  }

  /**
   * True if a task needs no transaction: whoever tries again has the same id for the job, and BullMQ adds it once. But the task
   * must not overtake those that do need one.
   */
  #mayAdd({ identity }: Draft): boolean {
    return identity.kind === 'add' && !this.#isStoring
  }

  /** Stores tasks by a transaction, in turn, because a connection has one transaction at a time. */
  #inTurn(drafts: readonly Draft[]): Promise<readonly Stored[]> {
    return new Promise((stored, failed) => {
      this.#waiting.push({ drafts, stored, failed })
      if (!this.#isStoring) void this.#storeWaiting()
    })
  }

  async #storeWaiting(): Promise<void> {
    this.#isStoring = true
    while (this.#waiting.length > 0) {
      const groups = this.#waiting.splice(0, groupsTogether(this.#waiting))
      const drafts = groups.flatMap(group => group.drafts)
      try {
        const stored = await this.#persistently(() =>
          addAll(this.#connection, drafts, this.#options.patienceMs),
        )
        this.#added(drafts)
        for (const group of groups) group.stored(stored.splice(0, group.drafts.length))
      } catch (error) {
        for (const group of groups) group.failed(toError(error))
      }
    }
    this.#isStoring = false
  }

  async #addOne(draft: Draft): Promise<Stored> {
    const stored = await this.#persistently(() => addOne(this.#connection, draft, this.#options.patienceMs))
    this.#added([draft])
    return stored
  }

  /** Adds tasks, and asks once more after a lost reply: what was stored is found by its identity. */
  #persistently<T>(add: () => Promise<T>): Promise<T> {
    return add().catch(error => {
      const failure = storeFailure(this.#connection, error)
      if (failure.code !== 'REDIS_UNANSWERED') throw failure
      return add().catch(() => {
        throw failure
      })
    })
  }

  #added(drafts: readonly Draft[]): void {
    if (this.#options.remembers === true) return
    for (const { identity } of drafts)
      if (identity.kind === 'add') this.#forgetting.add(addKey(identity.text))
  }

  /** Forgets identities. @param marks of tasks that nobody will store again */
  forget(marks: readonly string[]): void {
    for (const mark of marks) if (mark.startsWith('add-')) this.#forgetting.add(addKey(mark.slice(4)))
  }
}

function resultOf(stored: Stored): StoreResult {
  return { stored }
}

function failureOf(error: unknown): StoreResult {
  return { error: toError(error) }
}

/** Returns how many of the groups are stored together next, at least one. */
function groupsTogether(groups: readonly Group[]): number {
  let tasks = 0
  let bytes = 0
  const cut = groups.findIndex(({ drafts }) => {
    tasks += drafts.length
    bytes += drafts.reduce((sum, { json }) => sum + json.data.length, 0)
    return tasks > TOGETHER || bytes > TOGETHER_BYTES
  })
  return cut < 0 ? groups.length : Math.max(1, cut)
}
