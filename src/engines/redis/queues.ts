import type { Connection } from './connection.js'
import type { Queue } from './libraries.js'

/** A queue of a spool: the one that tasks are stored in, or that of the tasks of one name, of which only so many may run. */
export class SpoolQueue {
  readonly connection: Connection
  /** The name of its tasks; undefined: the spool's own queue. */
  readonly task: string | undefined
  /** What BullMQ calls it. No spool has an @ in its name. */
  readonly name: string

  constructor(connection: Connection, task?: string) {
    this.connection = connection
    this.task = task
    const { queue } = connection.address
    this.name = task === undefined ? queue : `${queue}@${encodeURIComponent(task)}`
  }

  /** @see Connection.key */
  key(type: string): string {
    return this.connection.key(type, this.name)
  }

  /** @see Connection.use */
  use<T>(operation: (queue: Queue) => Promise<T>): Promise<T> {
    return this.connection.use(operation, undefined, this.name)
  }
}

/** The names of tasks that have, or had, `maxConcurrency`, each with the prefix of its queue's keys. */
export function limitedKey(connection: Connection): string {
  return connection.key('spoold:limited')
}

/** All queues that may have tasks of this spool, its own first. */
export async function queuesOf(connection: Connection): Promise<readonly SpoolQueue[]> {
  const tasks = await connection.use(() => connection.redis.hkeys(limitedKey(connection)))
  return [undefined, ...tasks.sort()].map(task => new SpoolQueue(connection, task))
}
