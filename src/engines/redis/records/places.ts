import type { Connection } from '../connection.js'
import type { SpoolQueue } from '../queues.js'
import type { Part } from './walk.js'

/** Parts of all queues, one after the other; the dead letters of all queues are in the order of their time. */
interface Order {
  readonly parts: readonly Part[]
  readonly queues: readonly SpoolQueue[]
  readonly isReversed: boolean
}

/** Returns the ids at these places of an order. Redis counts the ids before them, without reading them. */
export async function idsAt(
  connection: Connection,
  { parts, queues, isReversed }: Order,
  from: number,
  most: number,
): Promise<string[]> {
  const found: string[] = []
  let before = from
  for (const part of isReversed ? [...parts].reverse() : parts)
    for (const group of part.place === 'failed' ? [queues] : queues.map(queue => [queue])) {
      const left = most - found.length
      if (left === 0) return found
      const bounds = await Promise.all(group.map(queue => boundsOf(connection, queue, part)))
      const count = bounds.reduce((sum, { count }) => sum + count, 0)
      const here = Math.min(left, Math.max(0, count - before))
      if (here > 0) {
        const range = { from: isReversed ? count - before - here : before, count: here }
        const ids = await idsOf(connection, group, part, { ...range, first: bounds[0]?.first ?? 0 })
        found.push(...(isReversed ? ids.reverse() : ids))
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
async function idsOf(
  connection: Connection,
  group: readonly SpoolQueue[],
  { place }: Part,
  { first, from, count }: { readonly first: number; readonly from: number; readonly count: number },
): Promise<string[]> {
  const { redis } = connection
  const [key = '', ...others] = group.map(queue => queue.key(place))
  if (others.length > 0)
    return (await connection.run('merged', 1 + others.length, key, ...others, from, count)) as string[]
  const start = first + from
  return connection.use(async () =>
    isList(place)
      ? (await redis.lrange(key, -start - count, -start - 1)).reverse()
      : redis.zrange(key, start, start + count - 1),
  )
}

function isList(place: Part['place']): boolean {
  return place === 'wait' || place === 'active'
}
