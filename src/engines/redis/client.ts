import { X509Certificate } from 'node:crypto'
import { closeSync, readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type ConnectionOptions, createSecureContext, type SecureContext } from 'node:tls'
import { withDeadline } from '../../base/clock.js'
import { messageOf, SpooldError } from '../../base/errors.js'
import type { RedisAddress } from '../../formats/protocol/redis-address.js'
import { Opener } from '../../system/opener.js'
import type { Cluster, ClusterOptions, Libraries, Redis, RedisOptions } from './libraries.js'

export const CONNECT_TIMEOUT_MS = 5000
/**
 * The longest time for a reply; a blocking read is shorter. A connection without a reply is given up, because its machine may be
 * gone.
 */
export const REPLY_TIMEOUT_MS = 10_000
/** A closed connection whose other end does not close it, too, is given up after this time. */
const DISCONNECT_TIMEOUT_MS = 500
const RECONNECT_CAP_MS = 1000
/** How often a Redis that reads its data from disk is asked whether it is ready. */
const LOADING_CHECK_MS = 1000

/**
 * Returns the client of a spool's Redis, not yet connected. A command does not wait for a connection: without one it fails, and
 * it is never sent twice.
 *
 * @param isWanted asked when a connection is lost: true to connect again
 * @throws SpooldError ADDRESS_INVALID if a file of TLS cannot be read
 */
export function openClient(
  address: RedisAddress,
  { Redis, Cluster }: Libraries,
  isWanted: () => boolean,
): Redis | Cluster {
  const again = (times: number) => (isWanted() ? pauseMs(times) : null)
  const options = optionsFor(address, again)
  if (address.kind !== 'cluster') {
    const client = inItsDatabase(adapted(new Redis(options)))
    if (address.kind !== 'sentinel') return client
    const sentinels = address.hosts.map(host => new Redis({ ...host, ...forSentinels(options) }))
    return followingSentinels(client, address.master, sentinels)
  }
  const cluster: ClusterOptions = {
    ...{ lazyConnect: true, clusterRetryStrategy: again },
    enableOfflineQueue: true, // the first command for a node waits for its connection; operations have a deadline
    retryDelayOnFailover: 0, // else it would send again what may have been carried out
    redisOptions: options,
    slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
    // keep the names of hosts, because a certificate has names
    ...(address.isTls ? { dnsLookup: (host, done) => done(null, host) } : {}),
  }
  return new Cluster([...address.hosts], cluster).on('+node', adapted)
}

function adapted(client: Redis): Redis {
  return leavingReplicas(withoutStaleTimer(client))
}

/**
 * Ends a connection whose Redis has become a replica, so that the next one finds the new master. Each connection is ended once,
 * because ioredis adds a timer and a listener for each reply that ends it.
 */
function leavingReplicas(client: Redis): Redis {
  let isLeaving = false
  client.options.reconnectOnError = ({ message }) => {
    const isFirst = !isLeaving && /^(READONLY|MASTERDOWN)/.test(message)
    isLeaving ||= isFirst
    return isFirst
  }
  return client.on('close', () => {
    isLeaving = false
  })
}

/**
 * Clears the timer of a connection that was lost, because it would end the next one; ioredis does so from 6.0 on (its issue
 * 2147). The timer keeps no process alive: the connection does, as long as somebody waits for a reply.
 */
function withoutStaleTimer(client: Redis): Redis {
  let timer: NodeJS.Timeout | undefined
  Object.defineProperty(client, 'socketTimeoutTimer', {
    get: () => timer,
    set(next: NodeJS.Timeout | undefined) {
      timer = next?.unref()
    },
  })
  return client.on('close', () => {
    clearTimeout(timer)
    timer = undefined
  })
}

/**
 * Ends a connection whose SELECT was refused before it is ready, so that it is made anew as a lost one is. Otherwise it would go
 * on in database 0, which has other spools.
 */
function inItsDatabase(client: Redis): Redis {
  return client.on('error', (error: Error & { readonly command?: { readonly name: string } }) => {
    if (error.command?.name === 'select') client.disconnect(true)
  })
}

function optionsFor(address: RedisAddress, again: (times: number) => number | null): RedisOptions {
  const { database: db, username, password } = address
  return {
    ...placeOf(address, again),
    ...{ db, connectionName: 'spoold', lazyConnect: true },
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 },
    ...{ connectTimeout: CONNECT_TIMEOUT_MS, disconnectTimeout: DISCONNECT_TIMEOUT_MS, keepAlive: 10_000 },
    socketTimeout: REPLY_TIMEOUT_MS, // replies come in order, so a late one is seen without a timer for each command
    ...{ retryStrategy: again, maxLoadingRetryTime: LOADING_CHECK_MS },
  }
}

function placeOf(address: RedisAddress, again: (times: number) => number | null): RedisOptions {
  const { kind, hosts, path, master, sentinelUsername, sentinelPassword } = address
  const [first = { host: '', port: 0 }] = hosts
  const tls = tlsOf(address, kind === 'sentinel' ? '' : first.host)
  const secure = tls === undefined ? {} : { tls }
  if (kind === 'unix') return { path, ...secure }
  if (kind !== 'sentinel') return { ...first, family: 0, ...secure }
  return {
    ...{ sentinels: [...hosts], name: master, sentinelRetryStrategy: again, family: 0 },
    ...(sentinelUsername === undefined ? {} : { sentinelUsername }),
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
    ...(tls === undefined ? {} : { tls, sentinelTLS: tls, enableTLSForSentinelMode: true }),
  }
}

/** Returns the options of a connection that waits for what a sentinel says. */
function forSentinels({
  sentinelUsername,
  sentinelPassword,
  sentinelTLS,
  retryStrategy,
  connectTimeout,
  keepAlive,
}: RedisOptions): RedisOptions {
  return {
    ...(sentinelUsername === undefined ? {} : { username: sentinelUsername }),
    ...(sentinelPassword === undefined ? {} : { password: sentinelPassword }),
    ...(sentinelTLS === undefined ? {} : { tls: sentinelTLS }),
    ...{ retryStrategy, connectTimeout, keepAlive, family: 0, connectionName: 'spoold' },
    ...{ lazyConnect: true, enableReadyCheck: false, maxRetriesPerRequest: null },
  }
}

/**
 * Leaves a Redis as soon as a sentinel says that another one is the master. Until the sentinels make it a replica, some ten seconds
 * later, it would take writes that are lost.
 *
 * @param sentinels clients, not yet connected. They keep no process alive, and end with the client
 */
function followingSentinels(client: Redis, master: string, sentinels: readonly Redis[]): Redis {
  for (const sentinel of sentinels) {
    sentinel.on('error', () => {}) // whoever needs a sentinel is told by the client
    sentinel.on('connect', () => sentinel.stream.unref())
    sentinel.on('message', (_channel: string, said: string) => {
      const [name, , , host, port] = said.split(' ')
      const { remoteAddress, remotePort } = client.stream
      if (name === master && (remoteAddress !== host || String(remotePort) !== port)) client.disconnect(true)
    })
  }
  client.on('connect', () => {
    for (const sentinel of sentinels)
      if (sentinel.status === 'wait' || sentinel.status === 'end')
        sentinel.subscribe('+switch-master').catch(() => {})
  })
  return client.on('end', () => {
    for (const sentinel of sentinels) sentinel.disconnect()
  })
}

/** Returns the server's name for TLS; none for an IP address, because certificates are not chosen by it. */
function named(host: string) {
  return host === '' || isIP(host) !== 0 ? {} : { servername: host }
}

/**
 * Reads the files of TLS again for each connection, because certificates are renewed while a daemon runs. If that fails, as while
 * they are being replaced, the connection is made with those that were read before.
 */
function tlsOf({ isTls, tls }: RedisAddress, host: string): ConnectionOptions | undefined {
  if (!isTls) return undefined
  let secureContext = contextFrom(tls)
  return Object.defineProperty(named(host), 'secureContext', {
    enumerable: true,
    get() {
      try {
        secureContext = contextFrom(tls)
      } catch {}
      return secureContext
    },
  })
}

function contextFrom(files: RedisAddress['tls']): SecureContext {
  const { ca, ...own } = files
  const authorities = ca === undefined ? {} : usedAs('?ca=', () => authoritiesIn(ca))
  return usedAs('?cert= and ?key=', () =>
    createSecureContext({
      ...authorities,
      ...Object.fromEntries(Object.entries(own).map(([name, file]) => [name, contentsOf(file)])),
    }),
  )
}

/** @throws if the file has no certificate, which a context would ignore */
function authoritiesIn(file: string) {
  const ca = contentsOf(file)
  new X509Certificate(ca)
  return { ca }
}

function contentsOf(file: string): Buffer {
  const fd = new Opener(null).read(file)
  try {
    return readFileSync(fd)
  } finally {
    closeSync(fd)
  }
}

function usedAs<T>(what: string, use: () => T): T {
  try {
    return use()
  } catch (error) {
    throw new SpooldError('ADDRESS_INVALID', `${what} of a spool on Redis: ${messageOf(error)}`)
  }
}

/**
 * Returns the pause before the next try, in ms, with jitter so that the workers of many machines do not come back at one moment.
 */
export function pauseMs(times: number): number {
  return Math.min(RECONNECT_CAP_MS, 50 * 2 ** Math.min(times, 10)) * (0.5 + Math.random() / 2)
}

/**
 * Limits the time of an operation, because a cluster's client that has lost its nodes keeps commands until it finds them again.
 */
export async function inTime<T>(operation: Promise<T>): Promise<T> {
  return await withDeadline(operation, 2 * REPLY_TIMEOUT_MS, () => {
    throw new Error('Command timed out')
  })
}
