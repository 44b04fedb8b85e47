import { withDeadline } from '../../base/clock.js'
import { messageOf, SpooldError, toError } from '../../base/errors.js'
import type { Request, Stored } from '../../base/task/request.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import { markOf, wholeRequest } from './drafts.js'
import type { RedisEnqueuer } from './enqueuer.js'
import { isAway } from './store-failure.js'

/** How long a connected Redis may take to answer before the directory gets the task. */
const REPLY_MS = 3000
/** How long Redis is then left alone; with jitter, so that not all programs ask at the same moment. */
const PAUSE_MS = 2000

/**
 * Stores tasks in Redis and, while Redis is away, in a local directory, from which a daemon forwards them. A task that a lost
 * reply leaves in doubt goes to the directory, too: the name of its file has the identity by which Redis knows the task, if Redis
 * has it.
 */
export class FallbackEnqueuer implements Enqueuer {
  readonly #redis: RedisEnqueuer
  readonly #openDirectory: () => Promise<Enqueuer>
  /** Until when Redis is left alone; on the clock of `performance.now()`. */
  #awayUntil = Number.NEGATIVE_INFINITY
  /** The error of Redis when it was last asked in vain. */
  #fault: SpooldError | undefined

  /**
   * @param redis remembers what it stores until it is told to forget
   * @param openDirectory called when the directory is needed; it may fail, and be called again
   */
  constructor(redis: RedisEnqueuer, openDirectory: () => Promise<Enqueuer>) {
    this.#redis = redis
    this.#openDirectory = openDirectory
  }

  get name(): string {
    return this.#redis.name
  }

  async store(request: Request): Promise<Stored> {
    const [result] = await this.storeAll([request])
    if (result === undefined || 'error' in result) throw result?.error
    return result.stored
  }

  /**
   * Stores tasks. A task that Redis would refuse for the task's own fault is refused in any case, because nobody would be told
   * later.
   */
  async storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<readonly StoreResult[]> {
    const checked = await Promise.all(
      requests.map(async request => {
        try {
          return await wholeRequest(request)
        } catch (error) {
          return toError(error)
        }
      }),
    )
    const fault = checked.find(each => each instanceof Error)
    if (isAllOrNothing && fault !== undefined) return requests.map(() => ({ error: fault as Error }))
    const whole = checked.flatMap(each => (each instanceof Error ? [] : { ...each, mark: markOf(each) }))
    const results = [...(await this.#storeWhole(whole, isAllOrNothing))]
    return checked.map(each => (each instanceof Error ? { error: each } : (results.shift() as StoreResult)))
  }

  async #storeWhole(
    requests: ReadonlyArray<Request & { readonly mark: string }>,
    isAllOrNothing: boolean,
  ): Promise<readonly StoreResult[]> {
    if (requests.length === 0) return []
    const results = await this.#tryRedis(requests, isAllOrNothing)
    const left = requests.filter((_, i) => isLeft(results[i]))
    this.#redis.forget(requests.filter((_, i) => !isLeft(results[i])).map(({ mark }) => mark))
    if (left.length === 0) return results
    const local = [...(await this.#storeLocally(left, isAllOrNothing))]
    return results.map(result => (isLeft(result) ? withBoth(local.shift() as StoreResult, result) : result))
  }

  async #storeLocally(
    requests: readonly Request[],
    isAllOrNothing: boolean,
  ): Promise<readonly StoreResult[]> {
    try {
      return await (await this.#openDirectory()).storeAll(requests, isAllOrNothing)
    } catch (error) {
      return requests.map(() => ({ error: toError(error) }))
    }
  }

  async #tryRedis(requests: readonly Request[], isAllOrNothing: boolean): Promise<readonly StoreResult[]> {
    const failed = (error: SpooldError) => requests.map(() => ({ error }))
    // no attempt is made, so the pause does not grow, however many tasks come
    if (performance.now() < this.#awayUntil) return failed(leftAlone(this.name, this.#fault))
    const late = () => failed(new SpooldError('REDIS_UNANSWERED', lateText(this.name)))
    const stored = this.#redis.storeAll(requests, isAllOrNothing)
    const results = await withDeadline<readonly StoreResult[]>(stored, REPLY_MS, late)
    const left = results.find(isLeft)
    if (left !== undefined) this.#awayUntil = performance.now() + PAUSE_MS * (0.5 + Math.random())
    this.#fault = left?.error
    return results
  }
}

function isLeft(result: StoreResult | undefined): result is { readonly error: SpooldError } {
  return result !== undefined && 'error' in result && isAway(result.error)
}

function lateText(name: string): string {
  return `${name} has not answered within ${REPLY_MS / 1000} s; the task may have been stored`
}

/** Returns the error of a task that was not sent to Redis, so that nothing is in doubt. */
function leftAlone(name: string, fault: SpooldError | undefined): SpooldError {
  const why = fault?.code === 'REDIS_UNANSWERED' ? `${name} does not answer` : (fault?.message ?? name)
  return new SpooldError('REDIS_UNREACHABLE', why, { cause: fault })
}

/**
 * Returns the directory's result. If both failed, the error has the code of Redis, which says whether a retry may succeed, and
 * what is in doubt.
 */
function withBoth(local: StoreResult, { error }: { readonly error: SpooldError }): StoreResult {
  if (!('error' in local)) return local
  const text = `${error.message}; and the directory for that cannot take it: ${messageOf(local.error)}`
  return { error: new SpooldError(error.code, text, { cause: local.error }) }
}
