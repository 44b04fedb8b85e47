import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  isPeriodicEntry,
  type PeriodicEntry,
  type PeriodicState,
  type PeriodicStates,
} from '../../base/task/schedule.js'
import { pauseMs } from './client.js'
import type { Connection } from './connection.js'
import { queuesOf } from './queues.js'
import { inWords, serverFault } from './store-failure.js'
import { jsonIn, recordOf } from './task-job.js'

/** How often the write of an entry is tried before the caller is told that Redis does not answer. */
const MOST_TRIES = 3

/**
 * What a spool remembers of periodic tasks. The hash `spoold:periodic` has for each task its version, a word that only its writer
 * knows, and the entry as JSON. One script compares the version and writes, so only one of all daemons writes. A writer whose
 * reply was lost asks again with the same word, and learns that it was the one.
 */
export function periodicStates(connection: Connection): PeriodicStates {
  const key = connection.key('spoold:periodic')
  /** The clock of Redis minus `performance.now()`. */
  let aheadMs: number | undefined
  return {
    nowMs: () => (aheadMs === undefined ? Date.now() : Math.floor(performance.now() + aheadMs)),
    async read(givenUp) {
      const found = await inWords(async () => {
        await connection.reach(givenUp)
        aheadMs = (await connection.nowMs()) - performance.now()
        return connection.use(() => connection.redis.hgetall(key))
      })
      return new Map(Object.entries(found).map(([name, text]) => [name, stateIn(text, name)]))
    },
    keyOf: name => name,
    newTask: () => randomUUID(),
    async advance(entry, from) {
      const text = `${from + 1} ${randomUUID()} ${JSON.stringify(entry)}`
      for (let tries = 1; ; tries++)
        try {
          return (await connection.run('advance', key, entry.name, from, text)) === 1
        } catch (error) {
          if (tries === MOST_TRIES) throw serverFault(error) ?? error
          await sleep(pauseMs(tries))
        }
    },
    async forget(name, version) {
      await inWords(() => connection.run('forgetVersion', key, name, version))
    },
    fateOf: task => inWords(() => fateOf(connection, task)),
  }
}

function stateIn(text: string, name: string): PeriodicState {
  const [version, , ...json] = text.split(' ')
  return { version: Number(version) || 0, entry: entryIn(json.join(' '), name) }
}

function entryIn(json: string, name: string): PeriodicEntry | undefined {
  const value = jsonIn(json)
  return isPeriodicEntry(value) && value.name === name ? value : undefined
}

async function fateOf(connection: Connection, task: string) {
  const [own, ...limited] = await queuesOf(connection)
  for (const queue of [own, ...limited, own]) {
    if (queue === undefined) continue // the spool's own queue comes twice, because the job may have been moved back meanwhile
    const { redis } = connection
    const [[stored, progress], buried] = await queue.use(() =>
      Promise.all([
        redis.hmget(queue.key(task), 'timestamp', 'progress'),
        redis.zscore(queue.key('failed'), task),
      ]),
    )
    if (stored === null || stored === undefined) continue
    if (buried !== null) return 'gone'
    const { past } = recordOf({ progress: jsonIn(progress ?? '') })
    return past === 'none' ? 'waiting' : 'begun'
  }
  return 'gone'
}
