import { Hide } from '../../../formats/protocol/hide.js'
import type { Connection } from '../connection.js'

/** What the daemons of a spool hide. */
export async function readHidden(connection: Connection): Promise<Hide> {
  const { redis } = connection
  return new Hide(await connection.use(() => redis.smembers(keyOf(connection))))
}

/** @param keys whose values are hidden */
export async function noteHidden(connection: Connection, keys: readonly string[]): Promise<void> {
  const { redis } = connection
  const key = keyOf(connection)
  const before = await connection.use(() => redis.smembers(key))
  await connection.use(() => redis.sadd(key, '', ...keys))
  const over = before.filter(each => each !== '' && !keys.includes(each))
  if (over.length > 0) await connection.use(() => redis.srem(key, ...over))
}

function keyOf(connection: Connection): string {
  return connection.key('spoold:hide')
}
