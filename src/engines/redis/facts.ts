import { createHash, randomUUID } from 'node:crypto'
import { messageOf } from '../../base/errors.js'
import type { RedisFacts } from '../server-facts.js'
import type { Connection } from './connection.js'

/**
 * Tries what spoold and BullMQ do to keys, each once, on keys that are gone when the script ends. Returns the first refusal, or
 * ''.
 */
const TRY_ALL = `
local key = KEYS[1]
for _, command in ipairs({
  { 'SET', key, '1', 'PX', '1000' }, { 'GET', key }, { 'EXISTS', key }, { 'DEL', key },
  { 'HSET', key, 'a', '1' }, { 'HMGET', key, 'a' }, { 'HGETALL', key }, { 'HINCRBY', key, 'a', '1' }, { 'HDEL', key, 'a' },
  { 'PTTL', key }, { 'DEL', key },
  { 'LPUSH', key, 'a' }, { 'LPOS', key, 'a' }, { 'LRANGE', key, '0', '1' }, { 'LREM', key, '0', 'a' }, { 'DEL', key },
  { 'SADD', key, 'a' }, { 'SREM', key, 'a' }, { 'DEL', key },
  { 'ZADD', key, '1', 'a' }, { 'ZRANGEBYSCORE', key, '0', '1' }, { 'ZPOPMIN', key }, { 'DEL', key },
  { 'XADD', key, 'MAXLEN', '~', '1', '*', 'a', '1' }, { 'XREVRANGE', key, '+', '-', 'COUNT', '1' }, { 'DEL', key },
  { 'INCRBY', key, '1' }, { 'INCR', key }, { 'UNLINK', key }, { 'TIME' },
}) do
  local answer = redis.pcall(unpack(command))
  if type(answer) == 'table' and answer.err then return command[1] .. ': ' .. answer.err end
end
return ''`

const NOTHING = 'return 0'

/** Asks a Redis what it is, and what this user may do. It writes a key of its own, and removes it. */
export async function factsOf(connection: Connection): Promise<RedisFacts> {
  const { redis, address } = connection
  const key = connection.key(`spoold:doctor:${randomUUID()}`)
  return connection.use(async () => {
    const askedAtMs = Date.now()
    const [, info, config, time] =
      (await redis.pipeline().exists(key).info().config('GET', '*').time().exec()) ?? []
    const answeredAtMs = Date.now()
    const [seconds, microseconds] = (time?.[1] ?? []) as Array<string | undefined>
    const redisMs = Number(seconds) * 1000 + Number(microseconds) / 1000
    const tried = await redis.eval(TRY_ALL, 1, key).catch(messageOf)
    const sent = await tryClients(redis, key).catch(messageOf)
    return {
      name: address.name,
      info: info?.[0] == null ? linesOf(String(info?.[1])) : null,
      config: config?.[0] == null ? pairsOf(config?.[1]) : null,
      skewMs: Number.isNaN(redisMs) ? null : redisMs - (askedAtMs + answeredAtMs) / 2,
      roundTripMs: answeredAtMs - askedAtMs,
      refusal: String(tried) || (typeof sent === 'string' ? sent : refusedIn(sent)),
      replicasWanted: address.replicas,
    }
  })
}

/** Sends what clients send besides scripts: scripts by their hashes, transactions, and reads of events. */
function tryClients(redis: Connection['redis'], key: string) {
  return redis
    .pipeline()
    .script('LOAD', NOTHING)
    .evalsha(createHash('sha1').update(NOTHING).digest('hex'), 0)
    .watch(key)
    .unwatch()
    .xread('COUNT', 1, 'STREAMS', key, '$')
    .hkeys(key)
    .hlen(key)
    .zcount(key, 0, 0)
    .zscore(key, 'a')
    .llen(key)
    .smembers(key)
    .exec()
}

function refusedIn(replies: ReadonlyArray<readonly [Error | null, unknown]> | null): string | null {
  const [error] = (replies ?? []).find(([each]) => each !== null) ?? []
  return error == null ? null : messageOf(error)
}

export function linesOf(text: string): ReadonlyMap<string, string> {
  const lines = text.split(/\r?\n/).filter(line => line.includes(':'))
  return new Map(
    lines.map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)] as const),
  )
}

export function pairsOf(reply: unknown): ReadonlyMap<string, string> {
  const flat = Array.isArray(reply) ? reply.map(String) : []
  return new Map(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? ''] as const] : [])))
}
