import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import type { PeriodicStates } from '#src/base/task/schedule.js'
import { MemorySpool } from '#src/engines/memory/spool.js'
import { MemoryUpkeep } from '#src/engines/memory/upkeep.js'
import { Connection } from '#src/engines/redis/connection.js'
import { type Libraries, loadLibraries } from '#src/engines/redis/libraries.js'
import { RedisUpkeep } from '#src/engines/redis/upkeep.js'
import { parseRedisAddress } from '#src/formats/protocol/redis-address.js'
import { startRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'

/** Where a spool remembers its periodic tasks. */
export interface Store {
  readonly states: PeriodicStates
  damage(name: string): Promise<unknown>
  clear(): Promise<unknown>
}

const missing = skipUnless('redis-server')
const server = missing === false ? startRedis() : undefined
let libraries: Libraries | undefined
let spools = 0
const opened: Connection[] = []
before(async () => {
  await server?.ready()
  libraries = await loadLibraries()
})
after(() => {
  for (const connection of opened) connection.close()
})

function memory(): Store {
  const spool = new MemorySpool('memory:periodic')
  return {
    states: new MemoryUpkeep(spool).periodic,
    damage: async name => spool.periodic.set(name, { version: 9, entry: undefined }),
    clear: async () => spool.periodic.clear(),
  }
}

function redis(): Store {
  assert.ok(server !== undefined && libraries !== undefined)
  const connection = new Connection(parseRedisAddress(server.address(`periodic${spools++}`)), libraries)
  opened.push(connection)
  const key = connection.key('spoold:periodic')
  return {
    states: new RedisUpkeep(connection).periodic,
    damage: name => server.client.hset(key, name, '9 a {"name":5}'),
    clear: () => server.client.del(key),
  }
}

export const STORES: Readonly<Record<string, () => Store>> = {
  memory,
  ...(missing === false ? { redis } : {}),
}
