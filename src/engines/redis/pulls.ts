import { type Ref, toByteString } from '../../base/task/ref.js'
import { type Report, unknownName } from '../../base/task/report.js'
import type { TermsOrPark } from '../../base/task/terms.js'
import { HEADER_BYTES } from '../../formats/protocol/header.js'
import { ARGS_KEY, TASK_KEY } from '../../formats/protocol/named.js'
import { encodePacket } from '../../formats/protocol/packet.js'
import { parseVars, type Vars } from '../../formats/protocol/vars.js'
import type { Begun } from './begins.js'
import type { Connection } from './connection.js'
import type { JobJson } from './libraries.js'
import { type Fetched, limitedKey, SpoolQueue } from './queues.js'
import { type HeldJob, heldJobOf, ticketOf } from './refs.js'
import { recordOf, type TaskJob, taskOf } from './task-job.js'

/** Why there is no claim. */
export type Refusal = Omit<Report, 'ref' | 'ranMs'>

/** A job whose lock this worker has. */
export interface Pulled {
  readonly queue: SpoolQueue
  /** The token of the job's lock. */
  readonly token: string
  readonly json: JobJson
  /** Undefined: the job was not stored as a task. */
  readonly job: TaskJob | undefined
  /** The terms that the handlers have for the task. */
  readonly found: TermsOrPark
  /** Set if the run was stored as begun when the job was pulled. */
  readonly early?: Begun | undefined
}

/** The most jobs that one script moves. */
const SIFTED_AT_ONCE = 100
const TAKEN_OVER: Refusal = { kind: 'locked' }

/**
 * Brings one worker the jobs that its refs are for. BullMQ limits only whole queues, so a task with `maxConcurrency` has a queue
 * of its own. Whoever pulls one of its jobs from the spool's queue moves it there, and pulls the first job there. The limit is
 * that of the worker that was started last.
 */
export class Pulls {
  readonly #connection: Connection
  readonly #termsOf: ((vars: Vars) => TermsOrPark) | undefined
  readonly #queues = new Map<string | undefined, SpoolQueue>()
  /** The limits that this worker has told Redis; undefined: no limit. */
  readonly #told = new Map<string, number | undefined>()
  /** Jobs of the spool's queue that were pulled when others were settled. */
  #fetched: Fetched[] = []

  /** @param termsOf absent: the handlers have no terms for any task */
  constructor(connection: Connection, termsOf?: (vars: Vars) => TermsOrPark) {
    this.#connection = connection
    this.#termsOf = termsOf
  }

  /**
   * Pulls the job for a ref.
   *
   * @param tokens begins with the token for the lock; the token of a fetched job is added before anything is done with the job
   * @param fetched what `pullFetched` returned
   */
  async pull(ref: Ref, tokens: string[], fetched?: Pulled): Promise<Pulled | Refusal> {
    if (fetched !== undefined) {
      tokens.push(fetched.token)
      await eraseMark(fetched)
      return this.#limited({ ...fetched, early: undefined })
    }
    const [token = ''] = tokens
    const held = heldJobOf(ref)
    const { task, isSifting } = ticketOf(ref)
    if (task !== undefined) return this.#pullLimited(task, token)
    if (isSifting) await this.#sift()
    const queue = this.#in(held?.task)
    const json = held === undefined ? await queue.pull(token) : await queue.takeOver(held, token)
    if (json === undefined) return held === undefined ? queue.whyNone() : TAKEN_OVER
    return this.#limited(this.#pulled(queue, json, token))
  }

  /** @returns true if the job that is pulled when one of this queue is settled would be the one for `next` */
  mayFetch({ task: own }: SpoolQueue, next: Ref | undefined): boolean {
    if (next === undefined || own !== undefined || heldJobOf(next) !== undefined) return false
    const { task, isSifting } = ticketOf(next)
    return task === undefined && !isSifting
  }

  /** Returns the job that was pulled for this ref when another job was settled; undefined if there is none. */
  pullFetched(ref: Ref): Pulled | undefined {
    const isAny = heldJobOf(ref) === undefined && ticketOf(ref).task === undefined
    const fetched = isAny ? this.#fetched.shift() : undefined
    if (fetched === undefined) return undefined
    const { json, token, early } = fetched
    return this.#pulled(this.#in(undefined), json, token, early)
  }

  fetched(fetched: Fetched): void {
    this.#fetched.push(fetched)
  }

  /** Puts back what was fetched and not claimed. Each job is the first of its priority again. */
  giveBack(): void {
    const fetched = this.#fetched
    this.#fetched = []
    const queue = this.#in(undefined)
    for (const each of fetched)
      eraseMark({ ...each, queue })
        .then(() => queue.putBack(each.json.id, each.token))
        .catch(() => {}) // its lock expires
  }

  /**
   * Hands the lock of a job to a master.
   *
   * @param keepsSlot false: the job gives up its slot
   * @returns false: another claim may have the job
   */
  async handOver(held: HeldJob, to: string, keepsSlot: boolean): Promise<boolean> {
    const queue = this.#in(held.task)
    const isInQueue = held.task === undefined || keepsSlot
    return isInQueue ? queue.handOver(held, to) : queue.handOverUnlimited(held, to)
  }

  /** Returns the first job of the task's queue in place of a job that does not belong in the spool's queue. */
  async #limited(pulled: Pulled): Promise<Pulled | Refusal> {
    const { queue, json, token, found } = pulled
    const slots = typeof found === 'object' ? found.slots : undefined
    if (slots === undefined || queue.task !== undefined) return pulled
    await this.#tell(slots.name, slots.count)
    const limited = this.#in(slots.name)
    await queue.limit(json.id, token, limited, slots)
    const next = await limited.pull(token)
    return next === undefined
      ? { name: json.id, kind: 'parked', reason: 'slot', slots }
      : this.#pulled(limited, next, token)
  }

  async #pullLimited(task: string, token: string): Promise<Pulled | Refusal> {
    const found = this.#termsOf?.(varsOf(task))
    if (found === 'unknown-name') return { name: toByteString(task), ...unknownName(toByteString(task)) }
    if (found !== undefined) await this.#tell(task, found.slots?.count)
    const queue = this.#in(task)
    const json = await queue.pull(token)
    if (json !== undefined) return this.#pulled(queue, json, token)
    return found?.slots === undefined
      ? queue.whyNone()
      : { kind: 'parked', reason: 'slot', slots: found.slots }
  }

  #pulled(queue: SpoolQueue, json: JobJson, token: string, early?: Begun): Pulled {
    const job = taskOf(json)
    return {
      queue,
      json,
      token,
      job,
      found: job === undefined ? undefined : this.#termsOf?.(job.vars),
      early,
    }
  }

  #in(task: string | undefined): SpoolQueue {
    const queue = this.#queues.get(task) ?? new SpoolQueue(this.#connection, task)
    this.#queues.set(task, queue)
    return queue
  }

  async #tell(task: string, count: number | undefined): Promise<void> {
    if (this.#told.has(task) && this.#told.get(task) === count) return
    const to = new SpoolQueue(this.#connection, task)
    await this.#connection.run(
      'setLimit',
      ...[limitedKey(this.#connection), to.key('meta'), this.#connection.key('events')],
      ...[task, to.key(''), count ?? ''],
    )
    this.#told.set(task, count)
  }

  async #sift(): Promise<void> {
    const own = this.#connection.key('')
    await this.#connection.run('sift', limitedKey(this.#connection), own, SIFTED_AT_ONCE)
  }
}

/** Removes the mark of a run that was stored as begun with the pull, because no handler is called for it. */
export async function eraseMark({
  queue,
  json,
  token,
  early,
}: Pick<Pulled, 'queue' | 'json' | 'token' | 'early'>): Promise<void> {
  if (early !== undefined) await queue.mark({ id: json.id, token }, recordOf(json))
}

/** Returns the pairs of a named task, by which the handlers know it. */
function varsOf(task: string): Vars {
  const pairs = [
    [TASK_KEY, task],
    [ARGS_KEY, '[]'],
  ]
  const packet = encodePacket(pairs.map(([key = '', value = '']) => [Buffer.from(key), Buffer.from(value)]))
  return parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length) as Vars
}
