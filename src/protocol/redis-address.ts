import { describe, SpooldError } from '../base/errors.js'

/** A spool on Redis: `redis://[USER:PASSWORD@]HOST[:PORT]/DATABASE/NAME`, or `rediss://` over TLS. */
export interface RedisAddress {
  /** For people, logs and other programs: without user and password. */
  readonly name: string
  readonly host: string
  readonly port: number
  readonly database: number
  /** The name of the queue. */
  readonly queue: string
  readonly username: string | undefined
  readonly password: string | undefined
  readonly isTls: boolean
}

const FORM = 'redis://[USER:PASSWORD@]HOST[:PORT]/DATABASE/NAME'
const DEFAULT_PORT = 6379
/** BullMQ joins its keys with colons; the rest keeps names readable in URLs, keys and logs. */
const QUEUE_NAME = /^[\w.-]{1,100}$/

/** True for what means Redis, even if it is no valid address. No path of a spool looks like that. */
export function isRedisAddress(text: string): boolean {
  return /^rediss?:/i.test(text)
}

/** With user and password, by name: a spool is called by its name, and whoever opens it has been given its address. */
const addresses = new Map<string, string>()

/**
 * Remembers an address, and returns the name that this process may use for it from now on.
 *
 * @throws SpooldError ADDRESS_INVALID
 */
export function nameOfRedis(address: string): string {
  const { name } = parseRedisAddress(address)
  if (address !== name || !addresses.has(name)) addresses.set(name, address)
  return name
}

/** @param name as `nameOfRedis` returned it, or an address */
export function redisAddressOf(name: string): string {
  return addresses.get(name) ?? name
}

/** @throws SpooldError ADDRESS_INVALID; its message does not repeat a password */
export function parseRedisAddress(text: string): RedisAddress {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const [database = '', queue = '', ...rest] = url?.pathname.slice(1).split('/') ?? []
  if (url === undefined || url.hostname === '' || !text.includes('://'))
    throw invalid(`expected ${FORM}`, text)
  if (url.search !== '' || url.hash !== '') throw invalid(`expected ${FORM}, without ? and #`, text)
  if (!/^\d{1,5}$/.test(database)) throw invalid(`expected the number of a database in ${FORM}`, text)
  if (!QUEUE_NAME.test(queue) || rest.length > 0)
    throw invalid(`expected a name of letters, digits, "_", "-" and "." in ${FORM}`, text)
  const port = url.port === '' ? DEFAULT_PORT : Number(url.port)
  const scheme = url.protocol.toLowerCase()
  return {
    name: `${scheme}//${url.hostname}:${port}/${Number(database)}/${queue}`,
    host: url.hostname.replace(/^\[|\]$/g, ''), // of an IPv6 address
    port,
    database: Number(database),
    queue,
    username: decoded(url.username),
    password: decoded(url.password),
    isTls: scheme === 'rediss:',
  }
}

function decoded(text: string): string | undefined {
  return text === '' ? undefined : decodeURIComponent(text)
}

function invalid(expected: string, text: string): SpooldError {
  const got = describe(text.replace(/\/\/.*@/, '//…@'))
  return new SpooldError('ADDRESS_INVALID', `${expected}, got ${got}`)
}
