import type { Connection } from '../connection.js'
import type { SpoolQueue } from '../queues.js'
import type { Part } from './walk.js'

/** Parts of all queues, one after the other. */
interface Order {
  readonly parts: readonly Part[]
  readonly queues: readonly SpoolQueue[]
  readonly isReversed: boolean
}

interface Places {
  readonly queue: SpoolQueue
  readonly ids: readonly string[]
}

/** Returns the ids at these places of an order. Redis counts the ids before them, without reading them. */
export async function placesFrom(
  connection: Connection,
  { parts, queues, isReversed }: Order,
  from: number,
  most: number,
): Promise<Places[]> {
  const found: Places[] = []
  let [before, left] = [from, most]
  for (const part of isReversed ? [...parts].reverse() : parts)
    for (const queue of queues) {
      if (left === 0) return found
      const { first, count } = await boundsOf(connection, queue, part)
      const here = Math.min(left, Math.max(0, count - before))
      if (here > 0) {
        const ids = await idsAt(connection, queue, part, {
          from: isReversed ? first + count - before - here : first + before,
          count: here,
        })
        found.push({ queue, ids: isReversed ? ids.reverse() : ids })
        left -= here
      }
      before = Math.max(0, before - count)
    }
  return found
}

/** Returns which ranks of its set or list a part has. */
async function boundsOf(connection: Connection, queue: SpoolQueue, { place, min, max }: Part) {
  const { redis } = connection
  const key = queue.key(place)
  return connection.use(async () => {
    if (isList(place)) return { first: 0, count: await redis.llen(key) }
    if (min === undefined && max === undefined) return { first: 0, count: await redis.zcard(key) }
    const first = min === undefined ? 0 : await redis.zcount(key, '-inf', `(${min}`)
    return { first, count: await redis.zcount(key, min ?? '-inf', max ?? '+inf') }
  })
}

/** Returns ids by their ranks. A list is taken from at its end, so its ranks are reversed. */
function idsAt(
  connection: Connection,
  queue: SpoolQueue,
  { place }: Part,
  { from, count }: { readonly from: number; readonly count: number },
): Promise<string[]> {
  const { redis } = connection
  const key = queue.key(place)
  return connection.use(async () =>
    isList(place)
      ? (await redis.lrange(key, -from - count, -from - 1)).reverse()
      : redis.zrange(key, from, from + count - 1),
  )
}

function isList(place: Part['place']): boolean {
  return place === 'wait' || place === 'active'
}
