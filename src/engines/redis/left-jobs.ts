import { setTimeout as sleep } from 'node:timers/promises'
import type { LastRun } from '../../base/task/last-run.js'
import { pauseMs } from './client.js'
import type { Connection } from './connection.js'
import { limitedKey, refusalCode, SpoolQueue } from './queues.js'
import { type HeldJob, leaseOf } from './refs.js'

const LOOK_MS = 1000
const BLAMELESS: LastRun = { kind: 'blameless' }

interface Left {
  /** On the clock of `performance.now()`. */
  readonly until: number
  readonly except: ReadonlySet<string>
}

/**
 * Jobs that somebody has pulled without learning it: a worker that was killed, or a claim whose reply was lost. Without this they
 * would wait until their locks had expired. A pull may still be on its way when its worker is dead, so they are looked for
 * for as long as a lock lasts.
 */
export class LeftJobs {
  readonly #connection: Connection
  /** By what the tokens of their locks begin with. */
  readonly #holders = new Map<string, Left>()
  /** Jobs that were cut short, by their leases: a Redis that has lost its last second shows them with their locks again. */
  readonly #cut = new Map<string, LastRun>()
  #isLooking = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** @param holders tokens of locks, or what they begin with @param except leases of jobs that others deal with */
  add(holders: readonly string[], except: readonly string[] = []): void {
    if (holders.length === 0 || this.#isClosed) return
    const left = { until: performance.now() + this.#connection.lockMs, except: new Set(except) }
    for (const holder of holders) this.#holders.set(holder, left)
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
    this.#look()
  }

  /** Its worker is gone, and its next claim is to find how. After the last try its lock expires. */
  async cutShort(job: HeldJob, lastRun: LastRun): Promise<void> {
    for (let tries = 0; tries === 0 || !this.#isClosed; tries++)
      try {
        await this.#queueOf(job).cutShort(job, lastRun)
        if (this.#holders.size > 0) this.#cut.set(leaseOf(job), lastRun)
        return
      } catch (error) {
        if (refusalCode(error) !== undefined) return
        await sleep(pauseMs(tries), undefined, { ref: false })
      }
  }

  close(): void {
    this.#isClosed = true
    this.#rest()
  }

  #rest(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#holders.clear()
    this.#cut.clear()
  }

  #look(): void {
    if (this.#isLooking) return
    this.#isLooking = true
    this.#putBackAll()
      .catch(() => {}) // Redis is away
      .finally(() => {
        this.#isLooking = false
        if (this.#holders.size === 0) this.#rest()
      })
  }

  /** Each one that is found is the first of its priority again. */
  async #putBackAll(): Promise<void> {
    const [since, holders] = [performance.now(), [...this.#holders]]
    try {
      const found = await this.#find(holders.map(([holder]) => holder))
      await Promise.all(found.map(job => this.#putBack(job)))
    } finally {
      // where Redis was away all the time, their locks have expired meanwhile
      for (const [holder, { until }] of holders) if (until < since) this.#holders.delete(holder)
    }
  }

  async #find(holders: readonly string[]): Promise<HeldJob[]> {
    const own = this.#connection.key('')
    const found = await this.#connection.run('heldBy', limitedKey(this.#connection), own, ...holders)
    const jobs = found as ReadonlyArray<readonly [id: string, token: string, task: string]>
    return jobs.map(([id, token, task]) => ({ id, token, task: task === '' ? undefined : task }))
  }

  /** Where its run was stored as begun together with the pull, nobody called a handler. */
  async #putBack(job: HeldJob): Promise<void> {
    const lastRun = this.#cut.get(leaseOf(job)) ?? (this.#isExcepted(job) ? undefined : BLAMELESS)
    if (lastRun === undefined) return
    await this.#queueOf(job)
      .cutShort(job, lastRun)
      .catch(() => {}) // it is looked for again
  }

  #queueOf({ task }: HeldJob): SpoolQueue {
    return new SpoolQueue(this.#connection, task)
  }

  #isExcepted(job: HeldJob): boolean {
    const lease = leaseOf(job)
    return [...this.#holders.values()].some(({ except }) => except.has(lease))
  }
}
