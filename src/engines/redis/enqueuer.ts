import { toError } from '../../base/errors.js'
import type { Request, Stored } from '../../task/request.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import type { Connection } from './connection.js'
import { type Draft, draftOf, identityKey } from './drafts.js'
import type { Queue } from './libraries.js'
import { commandOf } from './scripts.js'
import { storeFailure, unreplicated } from './store-failure.js'

interface RedisEnqueuerOptions {
  /** How long to wait for a connection. */
  readonly patienceMs?: number
  /** The identities of what was stored are forgotten when `forget` says so, and not as soon as that is known. */
  readonly remembers?: boolean
}

/** Those who wait meanwhile are stored together next, up to so many tasks, and so many bytes unless one alone has more. */
const TOGETHER = 64
const TOGETHER_BYTES = 1024 * 1024
/** How long replicas have to confirm a task. */
const REPLICATION_MS = 2000
/**
 * How long Redis knows the identity of a task whose reply nobody has seen: longer than it may take until somebody asks again,
 * who was cut off, or stopped, over a long weekend. All others are forgotten at once.
 */
const TOMBSTONE_MS = 7 * 86_400_000

/** Tasks of one caller. All of them are stored, or none. */
interface Group {
  readonly drafts: readonly Draft[]
  stored(stored: readonly Stored[]): void
  failed(error: Error): void
}

/**
 * Stores tasks as jobs of a queue. Each has an identity, which is remembered in the transaction that adds it: so it is
 * stored once, however often somebody tries, and a lost reply is no question.
 */
export class RedisEnqueuer implements Enqueuer {
  readonly #connection: Connection
  readonly #options: RedisEnqueuerOptions
  #waiting: Group[] = []
  #isStoring = false

  constructor(connection: Connection, options: RedisEnqueuerOptions = {}) {
    this.#connection = connection
    this.#options = options
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
    const stored = whole.length === 0 ? [] : await this.#inTurn(whole).catch(toError)
    let next = 0
    return drafts.map(draft => {
      if (draft instanceof Error) return { error: draft }
      if (stored instanceof Error) return { error: stored }
      return { stored: stored[next++] as Stored }
    })
  }

  async #nowMs(): Promise<number | Error> {
    try {
      return Math.floor(await this.#connection.nowMs(this.#options.patienceMs))
    } catch (error) {
      return storeFailure(this.#connection, error, false)
    }
  }

  /** A connection has one transaction at a time. */
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
      try {
        const stored = await this.#add(groups.flatMap(({ drafts }) => drafts))
        for (const group of groups) group.stored(stored.splice(0, group.drafts.length))
      } catch (error) {
        for (const group of groups) group.failed(toError(error))
      }
    }
    this.#isStoring = false
  }

  /** After a lost reply it asks once more: what was stored is found by its identity. */
  async #add(drafts: readonly Draft[]): Promise<Stored[]> {
    const { patienceMs, remembers = false } = this.#options
    const add = () => this.#connection.use(queue => this.#store(queue, drafts), patienceMs)
    const stored = await add().catch(async error => {
      const failure = storeFailure(this.#connection, error)
      if (failure.code !== 'REDIS_UNANSWERED') throw failure
      return add().catch(() => {
        throw failure
      })
    })
    if (!remembers) this.#forget(drafts.filter(({ identity }) => identity.kind === 'add').map(keyOf))
    return stored
  }

  async #store(queue: Queue, drafts: readonly Draft[]): Promise<Stored[]> {
    /** The jobs of identities. */
    const jobs = new Map<string, string>()
    for (;;) {
      const left = new Map(
        drafts.filter(draft => !jobs.has(keyOf(draft))).map(draft => [keyOf(draft), draft]),
      )
      if (left.size === 0) break
      const first = drafts.filter(draft => left.get(keyOf(draft)) === draft)
      for (const [key, job] of await this.#tryToAdd(queue, first)) jobs.set(key, job)
    }
    return drafts.map(draft => {
      const job = jobs.get(keyOf(draft)) ?? ''
      return { path: `${this.name}/${job}`, isDuplicate: job !== draft.json.id }
    })
  }

  /**
   * Adds tasks with different identities, unless one of these is known.
   *
   * @returns the jobs of the identities that are known now: of all, if none was known before
   */
  async #tryToAdd(queue: Queue, drafts: readonly Draft[]): Promise<ReadonlyArray<readonly [string, string]>> {
    const { redis, address } = this.#connection
    const backend = queue.getBackend()
    const client = await backend.client
    const keys = drafts.map(draft => this.#connection.key(keyOf(draft)))
    const transaction = client.multi()
    for (const { json } of drafts) void backend.addJobToTransaction(transaction, json, json.id)
    transaction.runCommand(commandOf('remember'), [
      ...[keys.length + 1, this.#connection.key('spoold:ids'), ...keys],
      ...[this.#connection.key(''), TOMBSTONE_MS],
      ...drafts.flatMap(({ json, identity: { kind, text } }) => [
        json.id,
        kind === 'id' ? text : '',
        json.timestamp,
      ]),
    ])
    // Written in one piece, which needs no reply in between: `recall` writes what is known once more, so that the
    // transaction, which watches it, is given up.
    const [, known, replies, replicas] = await Promise.all([
      redis.watch(keys),
      client.runCommand(commandOf('recall'), [keys.length, ...keys]) as Promise<string[]>,
      transaction.exec(),
      address.replicas === 0
        ? undefined
        : redis.pipeline().exists(keys).wait(address.replicas, REPLICATION_MS).exec(),
    ])
    const failures = (replies ?? []).flatMap(([error]) => error ?? [])
    if (failures.some(({ message }) => message.startsWith('NOSCRIPT'))) {
      await this.#connection.loadScripts() // its client had sent them in a transaction that was given up
      return []
    }
    for (const failure of failures) throw failure
    const confirmed = Number(replicas?.[1]?.[1] ?? 0)
    if (confirmed < address.replicas)
      throw unreplicated(this.name, { confirmed, wanted: address.replicas, afterMs: REPLICATION_MS })
    if (replies !== null) return drafts.map(draft => [keyOf(draft), draft.json.id])
    return drafts.flatMap((draft, i) => (known[i] ? [[keyOf(draft), known[i]] as const] : []))
  }

  /** Nobody asks for them any more. */
  #forget(keys: readonly string[]): void {
    if (keys.length === 0) return
    const all = keys.map(key => this.#connection.key(key))
    this.#connection.use(() => this.#connection.redis.unlink(all)).catch(() => {}) // they go with time
  }

  /** @param marks of tasks whose storing nobody will repeat */
  forget(marks: readonly string[]): void {
    this.#forget(marks.filter(mark => mark.startsWith('add-')).map(mark => `spoold:add:${mark.slice(4)}`))
  }
}

function keyOf({ identity }: Draft): string {
  return identityKey(identity)
}

/** How many of the groups are stored together next, at least one. */
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
