import type { Emitter } from '../../base/events/emitter.js'
import { parseRedisAddress } from '../../formats/protocol/redis-address.js'
import type { Enqueuer } from '../enqueuer.js'
import type { AwayListener, Forwarder } from '../forwarder.js'
import type { RedisClaimsOptions } from './claims.js'
import type { Connection } from './connection.js'
import { inWords } from './store-failure.js'

type Connections = Map<string, Promise<Connection>>

/** One connection per spool that this process uses, whatever for. A connection is kept while it is needed. */
const connections: Connections = new Map()
/**
 * Further connections, for what a daemon does at its own times: a Redis that does not answer must not hold a process that has
 * stopped.
 */
const unasked: Connections = new Map()

function connectionTo(address: string, opened = connections): Promise<Connection> {
  let connection = opened.get(address)
  if (connection === undefined) {
    connection = connect(address, opened !== unasked)
    opened.set(address, connection)
    connection.catch(() => opened.delete(address)) // the missing library may be installed later
  }
  return connection
}

async function connect(address: string, holds?: boolean): Promise<Connection> {
  const { Connection } = await import('./connection.js')
  return Connection.open(address, holds)
}

/** How long a connection may take where tasks can go elsewhere, or wait. */
const PATIENCE_MS = 1000

async function rememberingEnqueuer(address: string) {
  const { RedisEnqueuer } = await import('./enqueuer.js')
  return new RedisEnqueuer(await connectionTo(address), { remembers: true, patienceMs: PATIENCE_MS })
}

/** Opens a directory on demand. A directory that cannot be used is no fault while Redis is there; once opened, it stays open. */
function onceOpen(open: () => Promise<Enqueuer>): () => Promise<Enqueuer> {
  let opened: Promise<Enqueuer> | undefined
  return () => {
    opened ??= open().catch(error => {
      opened = undefined
      throw error
    })
    return opened
  }
}

/**
 * Returns the engine of a spool on Redis.
 *
 * @param address with user and password
 * @param openLocal opens the directory that takes tasks while Redis does not
 */
export function redisEngine(
  address: string,
  openLocal: (directory: string, sync: boolean) => Promise<Enqueuer>,
) {
  return {
    async enqueuer(sync: boolean): Promise<Enqueuer> {
      const { fallback } = parseRedisAddress(address)
      if (fallback !== undefined) {
        const { FallbackEnqueuer } = await import('./fallback-enqueuer.js')
        return new FallbackEnqueuer(
          await rememberingEnqueuer(address),
          onceOpen(() => openLocal(fallback, sync)),
        )
      }
      const { RedisEnqueuer } = await import('./enqueuer.js')
      return new RedisEnqueuer(await connectionTo(address))
    },
    async forwarder(away: AwayListener): Promise<Forwarder> {
      const { RedisForwarder } = await import('./forwarder.js')
      return new RedisForwarder(await rememberingEnqueuer(address), away)
    },
    async facts() {
      const { factsOf } = await import('./facts.js')
      return factsOf(await connectionTo(address))
    },
    async overview() {
      const { overviewOf } = await import('./overview.js')
      return inWords(async () => overviewOf(await connectionTo(address)))
    },
    async members() {
      const { readMembers } = await import('./membership.js')
      return readMembers(await connectionTo(address))
    },
    async feed(_options: unknown, events: Emitter) {
      const { RedisFeed } = await import('./feed.js')
      const [own, looks, watched] = [connectionTo(address), connectionTo(address, unasked), connect(address)]
      return new RedisFeed(await own, await watched, events, await looks)
    },
    async claims(options: RedisClaimsOptions) {
      const { RedisClaims } = await import('./claims.js')
      return new RedisClaims(await connectionTo(address), options)
    },
    async upkeep() {
      const { RedisUpkeep } = await import('./upkeep.js')
      return new RedisUpkeep(await connectionTo(address, unasked))
    },
    async tasks() {
      const { RedisTaskStore } = await import('./records/task-store.js')
      return RedisTaskStore.open(await connectionTo(address))
    },
  }
}
