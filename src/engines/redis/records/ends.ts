import { setTimeout as sleep } from 'node:timers/promises'
import type { Ref } from '../../../base/task/ref.js'
import type { TaskView } from '../../spool/admin/task-view.js'
import type { Ended } from '../../task-store.js'
import type { Connection } from '../connection.js'
import type { SpoolQueue } from '../queues.js'

/** How often the events of the queues are read, and how often the tasks themselves, because events may have been trimmed. */
const EVENTS_MS = 100
const LOOK_MS = 1000
const EVENTS_AT_ONCE = 1000

interface Where {
  readonly connection: Connection
  readonly queues: readonly SpoolQueue[]
  look(ref: Ref): Promise<TaskView | undefined>
}

/**
 * Waits until tasks have ended. BullMQ's events say that a task is done; other ends show in the queues.
 *
 * @see TaskStore.awaitEnds
 */
export async function awaitEnds(
  { connection, queues, look }: Where,
  refs: readonly Ref[],
  tell: (ref: Ref, how: Ended) => void,
  signal: AbortSignal,
): Promise<Ref[]> {
  const waiting = new Set(refs)
  const seen = new Set<Ref>()
  const end = (ref: Ref, how: Ended) => {
    if (waiting.delete(ref)) tell(ref, how)
  }
  const lookAtAll = async () => {
    for (const ref of [...waiting]) {
      const task = await look(ref)
      if (task?.state === 'dead') end(ref, { kind: 'dead', letter: task.letter })
      else if (task !== undefined) seen.add(ref)
      else end(ref, { kind: seen.has(ref) ? 'gone' : 'unknown' })
    }
  }
  const events = new Events(connection, queues)
  await events.begin()
  for (let lookAt = Number.NEGATIVE_INFINITY; waiting.size > 0; ) {
    for (const id of await events.done()) if (waiting.has(id)) end(id, { kind: 'done' })
    if (signal.aborted || performance.now() > lookAt) {
      await lookAtAll()
      lookAt = performance.now() + LOOK_MS
    }
    if (signal.aborted) break
    if (waiting.size > 0) await sleep(EVENTS_MS, undefined, { signal }).catch(() => {})
  }
  return [...waiting]
}

/** The events of all queues of a spool. */
class Events {
  readonly #connection: Connection
  readonly #keys: readonly string[]
  #last: string[] = []

  constructor(connection: Connection, queues: readonly SpoolQueue[]) {
    this.#connection = connection
    this.#keys = queues.map(queue => queue.key('events'))
  }

  /** Follows the events from now on. */
  async begin(): Promise<void> {
    const { redis } = this.#connection
    this.#last = await this.#connection.use(() =>
      Promise.all(
        this.#keys.map(async key => (await redis.xrevrange(key, '+', '-', 'COUNT', 1))[0]?.[0] ?? '0-0'),
      ),
    )
  }

  /** The ids of the jobs that were completed since the last call. */
  async done(): Promise<string[]> {
    const { redis } = this.#connection
    const found: string[] = []
    for (const [i, key] of this.#keys.entries())
      for (;;) {
        const from = `(${this.#last[i]}`
        const entries = await this.#connection.use(() =>
          redis.xrange(key, from, '+', 'COUNT', EVENTS_AT_ONCE),
        )
        for (const [id, fields] of entries) {
          this.#last[i] = id
          if (fields[1] === 'completed') found.push(fields[fields.indexOf('jobId') + 1] ?? '')
        }
        if (entries.length < EVENTS_AT_ONCE) break
      }
    return found
  }
}
