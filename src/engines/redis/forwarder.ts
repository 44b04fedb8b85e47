import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf, SpooldError, toError } from '../../base/errors.js'
import type { StoreResult } from '../enqueuer.js'
import type { AwayListener, Forwarded, ForwardedTask, Forwarder } from '../forwarder.js'
import { pauseMs } from './client.js'
import { markOfFile } from './drafts.js'
import type { RedisEnqueuer } from './enqueuer.js'
import { isAway } from './store-failure.js'
import { MAX_TASK_BYTES } from './task-job.js'

/** How long after a task was stored its file is looked at: Redis remembers the task until the file is gone. */
const LOOK_MS = 1000

interface Waiting {
  readonly task: ForwardedTask
  readonly mark: string
  ended(forwarded: Forwarded): void
}

/** A stored task whose file may still be there. */
type Kept = Pick<Waiting, 'mark'> & Pick<ForwardedTask, 'file'>

/**
 * Forwards tasks to a spool on Redis. Redis remembers a stored task until its file is gone, so that whoever finds the file, after
 * a death in between, does not store the task again.
 */
export class RedisForwarder implements Forwarder {
  readonly #enqueuer: RedisEnqueuer
  readonly #away: AwayListener
  #waiting: Waiting[] = []
  #isForwarding = false
  #isAway = false
  #kept: Kept[] = []
  #look: NodeJS.Timeout | undefined

  /** @param enqueuer remembers what it stores until it is told to forget */
  constructor(enqueuer: RedisEnqueuer, away: AwayListener) {
    this.#enqueuer = enqueuer
    this.#away = away
  }

  forward(task: ForwardedTask): Promise<Forwarded> {
    if (task.bodyBytes > MAX_TASK_BYTES) {
      const why = `its body has ${task.bodyBytes} bytes, and a spool on Redis takes at most ${MAX_TASK_BYTES}`
      return Promise.resolve({ kind: 'refused', why })
    }
    return new Promise(ended => {
      this.#waiting.push({ task, mark: markOfFile(basename(task.file)), ended })
      if (!this.#isForwarding) void this.#forwardAll()
    })
  }

  async #forwardAll(): Promise<void> {
    this.#isForwarding = true
    for (let failures = 0; this.#waiting.length > 0; ) {
      this.#giveUp()
      const batch = this.#waiting.slice(0, countWithin(this.#waiting, MAX_TASK_BYTES))
      const why = await this.#forwardSome(batch)
      this.#tell(why)
      failures = why === undefined ? 0 : failures + 1
      if (why !== undefined) await sleep(pauseMs(failures))
    }
    this.#isForwarding = false
  }

  /** Ends the tasks that nobody waits for any more. */
  #giveUp(): void {
    const over = this.#waiting.filter(({ task }) => task.over.aborted)
    this.#waiting = this.#waiting.filter(({ task }) => !task.over.aborted)
    for (const { ended } of over) ended({ kind: 'away' })
  }

  /** Stores a batch of tasks. @returns why none could be stored; all of them still wait then */
  async #forwardSome(batch: readonly Waiting[]): Promise<string | undefined> {
    const results = await this.#storeAll(batch)
    const away = results.find(result => 'error' in result && isAway(result.error))
    if (away !== undefined && 'error' in away) return messageOf(away.error)
    this.#waiting = this.#waiting.slice(batch.length)
    for (const [i, { task, mark, ended }] of batch.entries()) {
      const result = results[i]
      if (result !== undefined && 'stored' in result) this.#keep({ file: task.file, mark })
      ended(result === undefined ? { kind: 'away' } : forwardedFrom(result))
    }
    return undefined
  }

  /** Stores tasks together, and one by one if that fails, so that no task fails for what another one did. */
  async #storeAll(batch: readonly Waiting[]): Promise<readonly StoreResult[]> {
    const requests = batch.map(({ task, mark }) => {
      try {
        return { ...task.read(), mark }
      } catch (error) {
        return toError(error)
      }
    })
    const whole = requests.flatMap(request => (request instanceof Error ? [] : request))
    let results = [...(await this.#enqueuer.storeAll(whole))]
    if (whole.length > 1 && results.some(result => 'error' in result && !isAway(result.error))) {
      results = []
      for (const request of whole) results.push(...(await this.#enqueuer.storeAll([request])))
    }
    return requests.map(request =>
      request instanceof Error ? { error: request } : (results.shift() as StoreResult),
    )
  }

  #tell(why: string | undefined): void {
    if (this.#isAway === (why !== undefined)) return
    this.#isAway = why !== undefined
    this.#away(why)
  }

  #keep(stored: Kept): void {
    this.#kept.push(stored)
    this.#look ??= setTimeout(() => {
      this.#look = undefined
      const gone = this.#kept.filter(({ file }) => !existsSync(file))
      this.#kept = [] // if a file stays, Redis forgets its task by itself
      this.#enqueuer.forget(gone.map(({ mark }) => mark))
    }, LOOK_MS).unref()
  }
}

/** Returns how many of the first tasks are together no larger than this; at least one. */
function countWithin(waiting: readonly Waiting[], mostBytes: number): number {
  let bytes = 0
  const cut = waiting.findIndex(({ task }) => {
    bytes += task.bodyBytes
    return bytes > mostBytes
  })
  return cut < 0 ? waiting.length : Math.max(1, cut)
}

function forwardedFrom(result: StoreResult): Forwarded {
  if ('stored' in result) return { kind: 'stored' }
  const { error } = result
  const isRefused = error instanceof SpooldError && error.code === 'REQUEST_INVALID'
  return { kind: isRefused ? 'refused' : 'failed', why: messageOf(error) }
}
