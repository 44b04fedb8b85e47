import { setTimeout as sleep } from 'node:timers/promises'
import type { LastRun } from '../../base/task/last-run.js'
import { pauseMs } from './client.js'
import type { Connection } from './connection.js'
import { limitedKey, refusalCode, SpoolQueue } from './queues.js'
import { type HeldJob, leaseOf } from './refs.js'

const LOOK_MS = 1000
export const BLAMELESS: LastRun = { kind: 'blameless' }

/** Something that is of use for as long as a lock lasts. */
interface Passing {
  /** On the clock of `performance.now()`. */
  readonly until: number
}

interface Left extends Passing {
  readonly except: ReadonlySet<string>
}

interface Cut extends Passing {
  readonly lastRun: LastRun
}

/**
 * Jobs that somebody has pulled without learning it: a worker that was killed, or a claim whose reply was lost. Without this
 * class they would wait until their locks expire. A pull may still be on its way when its worker is dead, so the jobs are looked
 * for as long as a lock lasts.
 */
export class LeftJobs {
  readonly #connection: Connection
  /** The holders of such jobs, by what the tokens of their locks begin with. */
  readonly #holders = new Map<string, Left>()
  /** Jobs whose runs were cut short, by their leases: a Redis that has lost its last second shows them with their locks again. */
  readonly #cut = new Map<string, Cut>()
  #looking: Promise<void> | undefined
  readonly #closed = new AbortController()
  #timer: NodeJS.Timeout | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** @param holders tokens of locks, or what they begin with @param except leases of jobs that others deal with */
  add(holders: readonly string[], except: readonly string[] = []): void {
    if (holders.length === 0 || this.#closed.signal.aborted) return
    const left = { until: this.#lockEnd, except: new Set(except) }
    for (const holder of holders) this.#holders.set(holder, left)
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
    this.#look()
  }

  /**
   * Notes how a job's run was cut short, because its worker is gone and its next claim has to know. After the last try its lock
   * expires.
   */
  async cutShort(job: HeldJob, lastRun: LastRun): Promise<void> {
    for (let tries = 0; tries === 0 || !this.#closed.signal.aborted; tries++)
      try {
        await this.#queueOf(job).cutShort(job, lastRun)
        if (this.#holders.size > 0) this.#cut.set(leaseOf(job), { until: this.#lockEnd, lastRun })
        return
      } catch (error) {
        if (refusalCode(error) !== undefined) return
        await sleep(pauseMs(tries), undefined, { ref: false })
      }
  }

  /** When a lock that is renewed now ends, on the clock of `performance.now()`. */
  get #lockEnd(): number {
    return performance.now() + this.#connection.lockMs
  }

  /** Looks a last time, before a process ends that alone knows that these jobs are blameless. */
  async lookOnceMore(): Promise<void> {
    await this.#looking
    if (this.#holders.size > 0) await this.#putBackAll()
  }

  close(): void {
    this.#closed.abort()
    this.#rest()
  }

  #rest(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#holders.clear()
    this.#cut.clear()
  }

  #look(): void {
    this.#looking ??= this.#putBackAll()
      .catch(() => {}) // Redis is away
      .finally(() => {
        this.#looking = undefined
        if (this.#holders.size === 0) this.#rest()
      })
  }

  /** Puts back all jobs that are found. Each one is the first of its priority again. */
  async #putBackAll(): Promise<void> {
    const since = performance.now()
    try {
      const found = await this.#find([...this.#holders.keys()])
      await Promise.all(found.map(job => this.#putBack(job)))
    } finally {
      // if Redis was away all the time, their locks have expired meanwhile
      forget(this.#holders, since)
      forget(this.#cut, since)
    }
  }

  async #find(holders: readonly string[]): Promise<HeldJob[]> {
    await this.#connection.reach(this.#closed.signal)
    const own = this.#connection.key('')
    const found = await this.#connection.run('heldBy', limitedKey(this.#connection), own, ...holders)
    const jobs = found as ReadonlyArray<readonly [id: string, token: string, task: string]>
    return jobs.map(([id, token, task]) => ({ id, token, task: task === '' ? undefined : task }))
  }

  /**
   * Puts back one job. If its run was stored as begun together with the pull, nobody called a handler, so the run is blameless.
   */
  async #putBack(job: HeldJob): Promise<void> {
    const lastRun = this.#cut.get(leaseOf(job))?.lastRun ?? (this.#isExcepted(job) ? undefined : BLAMELESS)
    if (lastRun === undefined) return
    await this.#queueOf(job)
      .cutShort(job, lastRun)
      .catch(() => {}) // the job is looked for again
  }

  #queueOf({ task }: HeldJob): SpoolQueue {
    return new SpoolQueue(this.#connection, task)
  }

  #isExcepted(job: HeldJob): boolean {
    const lease = leaseOf(job)
    return [...this.#holders.values()].some(({ except }) => except.has(lease))
  }
}

/** Removes the entries that ended before this time. */
function forget(all: Map<string, Passing>, since: number): void {
  for (const [key, { until }] of all) if (until < since) all.delete(key)
}
