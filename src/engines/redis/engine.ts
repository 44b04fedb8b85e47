import type { Emitter } from '../../events/emitter.js'
import type { RedisClaimsOptions } from './claims.js'
import type { Connection } from './connection.js'

/** One for each spool that this process uses, whatever for: a connection is kept while it is needed. */
const connections = new Map<string, Promise<Connection>>()

function connectionTo(address: string): Promise<Connection> {
  let connection = connections.get(address)
  if (connection === undefined) {
    connection = connect(address)
    connections.set(address, connection)
    connection.catch(() => connections.delete(address)) // what is missing may be installed
  }
  return connection
}

async function connect(address: string): Promise<Connection> {
  const { Connection } = await import('./connection.js')
  return Connection.open(address)
}

/** @param address with user and password */
export function redisEngine(address: string) {
  return {
    async enqueuer() {
      const { RedisEnqueuer } = await import('./enqueuer.js')
      return new RedisEnqueuer(await connectionTo(address))
    },
    async feed(_options: unknown, events: Emitter) {
      const { RedisFeed } = await import('./feed.js')
      return new RedisFeed(await connectionTo(address), await connect(address), events)
    },
    async claims(options: RedisClaimsOptions) {
      const { RedisClaims } = await import('./claims.js')
      return new RedisClaims(await connectionTo(address), options)
    },
    async upkeep() {
      const { RedisUpkeep } = await import('./upkeep.js')
      return new RedisUpkeep(await connectionTo(address))
    },
  }
}
