import type { Connection } from './connection.js'
import type { Client, Queue } from './libraries.js'
import { isUnreadable } from './store-failure.js'

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
  use<T>(operation: (queue: Queue, client: Client) => Promise<T>): Promise<T> {
    return this.connection.use(operation, undefined, this.name)
  }

  /** @returns how many jobs were removed: 0 if a worker has its lock */
  async remove(job: string): Promise<number> {
    try {
      return await this.use(async queue => {
        // BullMQ forgets the identity together with the job; somebody may still ask for it
        const [, removed] = await Promise.all([
          this.connection.redis.hdel(this.key(job), 'deid'),
          queue.getBackend().remove(job, false),
        ])
        return removed
      })
    } catch (error) {
      if (!isUnreadable(error)) throw error
      const keys = [job, 'wait', 'prioritized', 'delayed', 'failed'].map(type => this.key(type))
      return Number(await this.connection.run('removeNoJob', ...keys, job))
    }
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
