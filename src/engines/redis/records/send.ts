import { randomUUID } from 'node:crypto'
import { displayName, type Ref } from '../../../base/task/ref.js'
import { type Changed, refused } from '../../spool/admin/change.js'
import { type Parcel, whyNoJourney } from '../../spool/admin/move.js'
import { failuresIn } from '../../spool/dead-letters.js'
import type { TaskStore } from '../../task-store.js'
import type { Connection } from '../connection.js'
import { packetIn, type TaskRecord, withoutJourney } from '../task-job.js'
import { CHANGING, heldAs, relocate, remove, TRIES } from './change.js'
import { patiently } from './patience.js'
import type { Peeked } from './peek.js'

/** Moves a job to another store. @throws if it is unknown whether the job has arrived */
export async function moveJob(
  connection: Connection,
  to: TaskStore,
  look: () => Promise<Peeked | undefined>,
): Promise<Changed> {
  if (displayName(to.spool) === connection.name) return refused('it is there already')
  const sending = new Sending(connection, to, look)
  for (let tries = 0; tries < TRIES; tries++) {
    const changed = await sending.try()
    if (changed !== undefined) return changed
  }
  return refused(CHANGING)
}

/**
 * Takes a job to another store. The job is looked at again and again, because Redis may be away for a while in any of the steps.
 */
class Sending {
  readonly #connection: Connection
  readonly #to: TaskStore
  readonly #look: () => Promise<Peeked | undefined>
  #arrived: Ref | undefined

  constructor(connection: Connection, to: TaskStore, look: () => Promise<Peeked | undefined>) {
    this.#connection = connection
    this.#to = to
    this.#look = look
  }

  /**
   * Takes the same steps as from a directory: holds the job, with a key; sends it; removes it here; forgets the key.
   *
   * @returns undefined: the job has changed meanwhile, and has to be looked at again
   * @throws if it is unknown whether the job has arrived
   */
  async try(): Promise<Changed | undefined> {
    const job = await this.#reach(this.#look)
    if (job === undefined) return this.#arrived === undefined ? { kind: 'gone' } : this.#done(this.#arrived)
    const { place, packet, record } = job
    if (place === 'active') return { kind: 'running' }
    if (place === 'failed') return refused('it is a dead letter: requeue it first')
    if (packet === undefined) return refused('it is not a task of spoold: nothing could run it')
    const refusal = whyNoJourney(record, this.#name)
    if (refusal !== undefined) return refused(refusal)
    if (record.moveKey === undefined) return this.#hold(job)
    const parcel = await this.#parcelOf(job)
    if (parcel === undefined) return undefined
    const received = await this.#to.receive(parcel, record.moveKey)
    if (received.kind === 'refused') return this.#takeBack(job, received.detail)
    this.#arrived = received.ref
    if ((await this.#reach(() => remove(job))) === undefined) return undefined
    await this.#to.forget(record.moveKey)
    return this.#done(received.ref)
  }

  get #name(): string {
    return displayName(this.#to.spool)
  }

  #done(to: Ref): Changed {
    return { kind: 'done', to }
  }

  #reach<T>(operation: () => Promise<T>): Promise<T> {
    return patiently(this.#connection, operation)
  }

  /** Holds the job with a note of the move, after which it has to be looked at again. */
  async #hold(job: Peeked): Promise<undefined> {
    const { record } = job
    const note = {
      ...{ movedTo: this.#name, moveKey: randomUUID(), movedAt: Date.now() },
      ...(record.isHeld === true ? { wasHeld: true } : {}),
    }
    await this.#reach(() => relocate(this.#connection, job, heldAs({ ...record, ...note })))
  }

  async #takeBack(job: Peeked, detail: string): Promise<Changed> {
    const record = withoutJourney(job.record)
    const back =
      job.record.wasHeld === true
        ? heldAs(record)
        : ({ to: 'delayed', atMs: job.dueAtMs, record: { ...record, isHeld: false } } as const)
    await this.#reach(() => relocate(this.#connection, job, back))
    return refused(detail)
  }

  async #parcelOf({ id, queue, record, dueAtMs, storedAtMs, priority }: Peeked): Promise<Parcel | undefined> {
    const data = await this.#reach(() => queue.use(() => this.#connection.redis.hget(queue.key(id), 'data')))
    const task = data === null ? undefined : packetIn(data)
    if (task === undefined) return undefined
    const { packet, body = Buffer.alloc(0) } = task
    return {
      ...{ packet, dueAtMs, arrivedAtMs: storedAtMs, bodyBytes: body.length, body: () => [body] },
      priority: priority === null ? undefined : String(priority),
      ...{ isHeld: record.wasHeld === true, past: record.past, record: runsOf(record) },
    }
  }
}

function runsOf(record: TaskRecord): Parcel['record'] {
  const { attempts, crashes, policy } = record
  const hasPolicy = Object.keys(policy).length > 0
  if (attempts === 0 && crashes === 0 && !hasPolicy) return undefined
  return { ...failuresIn(record), ...(hasPolicy ? { policy } : {}) }
}
