import { describe, SpooldError } from '../../base/errors.js'

/** The address of a spool on Redis. `FORMS` has the forms in which it is written. */
export interface RedisAddress {
  /** The name for people, logs and other programs: without user and password, and without what only says how to connect. */
  readonly name: string
  readonly kind: 'one' | 'unix' | 'sentinel' | 'cluster'
  /** Where to connect, at least one host; empty for a unix socket. */
  readonly hosts: readonly RedisHost[]
  /** The path of the unix socket; empty for other kinds. */
  readonly path: string
  /** The name under which sentinels know the Redis. */
  readonly master: string
  readonly database: number
  /** The name of the queue. */
  readonly queue: string
  /** The beginning of all keys. On a cluster, the braces keep all keys of a spool on one node. */
  readonly prefix: string
  readonly username: string | undefined
  readonly password: string | undefined
  readonly isTls: boolean
  /** The paths of files: the authorities to trust, the client's certificate and its key. */
  readonly tls: Readonly<Partial<Record<TlsFile, string>>>
  readonly sentinelUsername: string | undefined
  readonly sentinelPassword: string | undefined
  /** How many replicas have to have a task before it counts as stored. */
  readonly replicas: number
  /** How long a claim lasts that nobody renews. */
  readonly lockMs: number
  /** How often claims are looked for that have ended because nobody renewed them. */
  readonly checkMs: number
  /** The directory that takes tasks while Redis cannot. */
  readonly fallback: string | undefined
}

interface RedisHost {
  readonly host: string
  readonly port: number
}

type TlsFile = 'ca' | 'cert' | 'key'

const FORMS = {
  one: 'redis://[USER:PASSWORD@]HOST[:PORT]/DATABASE/NAME',
  unix: 'redis+unix://[USER:PASSWORD@]/PATH/DATABASE/NAME',
  sentinel: 'redis+sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST…]/MASTER/DATABASE/NAME',
  cluster: 'redis+cluster://[USER:PASSWORD@]HOST[:PORT][,HOST…]/0/NAME',
} as const
const DEFAULT_PORTS = { one: 6379, unix: 0, sentinel: 26_379, cluster: 6379 } as const
const SHAPE =
  /^(rediss?)(?:\+(unix|sentinel|cluster))?:\/\/(?:([^/?#]*)@)?([^/?#]*)\/([^?#]*)(?:\?([^#]*))?$/i
const HOST = /^(\[[0-9a-f:.]+\]|[^\s:[\]]+)(?::(\d{1,5}))?$/i
/** BullMQ joins its keys with colons; the rest keeps names readable in URLs, keys and logs. */
const WORD = /^[\w.-]{1,100}$/
const ESCAPES = ', and in user and password %2F for /, %3F for ? and %23 for #'
const DEFAULT_PREFIX = 'bull'
/** In seconds. A master that is stopped, or a machine that is paged out, for less than this keeps its tasks. */
const DEFAULT_LOCK = 15
const MAX_SECONDS = 3600
const TLS_FILES = ['ca', 'cert', 'key'] as const
const OPTIONS = new Set([
  ...['prefix', 'wait', 'lock', 'check', 'fallback', 'sentinel-user', 'sentinel-password'],
  ...TLS_FILES,
])

/** The options whose values are no secrets. */
const PUBLIC = new Set([...OPTIONS].filter(name => !name.startsWith('sentinel-')))

const REDIS = /^rediss?(\+\w+)?:/i
/** Matches an address of another scheme, or a mistyped one. Taken for a path, it would be printed, and its password with it. */
const ADDRESS = /^[a-z][a-z\d+.-]*:\/\/|^[^/]*\/\/[^/]*:[^/]*@/i

/** True for text that is meant as an address on Redis, even if it is not valid. No path of a spool looks like that. */
export function isRedisAddress(text: string): boolean {
  return REDIS.test(text) || ADDRESS.test(text)
}

/**
 * The addresses with user and password, by name. A spool is called by its name, and whoever opens it has been given its address.
 */
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

/** Returns the address with a directory for its tasks while Redis is away, unless it names one already. */
export function withFallback(address: string, directory: string): string {
  if (/[?&]fallback=/.test(address)) return address
  return `${address}${address.includes('?') ? '&' : '?'}fallback=${encodeURIComponent(directory)}`
}

/**
 * Returns the directory that an address names for its tasks while Redis is away; undefined: none, or the text is no such address.
 */
export function fallbackOf(address: string): string | undefined {
  try {
    return isRedisAddress(address) ? parseRedisAddress(address).fallback : undefined
  } catch {
    return undefined
  }
}

/** Returns the address that goes with a name. @param name as `nameOfRedis` returned it, or an address */
export function redisAddressOf(name: string): string {
  return addresses.get(name) ?? name
}

/** Parses an address. @throws SpooldError ADDRESS_INVALID; its message does not repeat a password */
export function parseRedisAddress(text: string): RedisAddress {
  const [, scheme = '', given = 'one', login, place = '', path = '', query = ''] = SHAPE.exec(text) ?? []
  const kind = given.toLowerCase() as RedisAddress['kind']
  const form = FORMS[kind]
  const isCutShort = login === undefined && text.includes('@')
  const fault = (expected: string) => invalid(isCutShort ? `${expected}${ESCAPES}` : expected, text)
  const segments = path.split('/')
  const [database = '', queue = ''] = segments.splice(-2)
  const isPlaced = kind === 'unix' ? place === '' && segments.length > 0 : place !== ''
  const isNamed = segments.length === (kind === 'sentinel' ? 1 : 0) || kind === 'unix'
  if (scheme === '' || !isPlaced) throw fault(`expected ${form}`)
  if (!/^\d{1,5}$/.test(database)) throw fault(`expected the number of a database in ${form}`)
  if (kind === 'cluster' && Number(database) !== 0)
    throw fault(`expected 0, the only database of a cluster, in ${form}`)
  if (![queue, ...(kind === 'sentinel' ? segments : [])].every(word => WORD.test(word)) || !isNamed)
    throw fault(`expected a name of letters, digits, "_", "-" and "." in ${form}`)
  const hosts = kind === 'unix' ? [] : place.split(',').map(host => hostIn(host, DEFAULT_PORTS[kind]))
  if (hosts.includes(undefined) || (kind === 'one' && hosts.length > 1)) throw fault(`expected ${form}`)
  const places = hosts.flatMap(host => host ?? [])
  const own = optionsIn(query, fault)
  const [username, password] = loginIn(login, fault)
  const prefix = own.get('prefix') ?? DEFAULT_PREFIX
  if (!WORD.test(prefix)) throw fault('expected ?prefix= with letters, digits, "_", "-" and "."')
  const replicas = own.get('wait') ?? '0'
  if (!/^\d$/.test(replicas)) throw fault('expected ?wait= with the number of replicas, 0 to 9')
  const lockMs = secondsIn(own.get('lock') ?? String(DEFAULT_LOCK)) * 1000
  const checkMs = own.has('check') ? secondsIn(own.get('check') ?? '') * 1000 : Math.ceil(lockMs / 3)
  if (Number.isNaN(lockMs + checkMs) || checkMs > lockMs)
    throw fault(`expected ?lock= and ?check= with 1 to ${MAX_SECONDS} seconds, and no longer check than lock`)
  const fallback = own.get('fallback')
  if (fallback?.startsWith('/') === false)
    throw fault('expected ?fallback= with the absolute path of a directory')
  const isTls = scheme.toLowerCase() === 'rediss'
  const tls = Object.fromEntries(TLS_FILES.flatMap(name => (own.has(name) ? [[name, own.get(name)]] : [])))
  if (!isTls && Object.keys(tls).length > 0) throw fault('expected rediss: with ?ca=, ?cert= or ?key=')
  if (own.has('cert') !== own.has('key')) throw fault('expected both ?cert= and ?key=, or neither')
  const socket = kind === 'unix' ? `/${segments.join('/')}` : ''
  const [master = ''] = kind === 'sentinel' ? segments : []
  return {
    ...{ kind, hosts: places, path: socket, master, database: Number(database), queue },
    ...{ username, password, isTls, tls, replicas: Number(replicas) },
    name: nameFrom(text, { place: placeOf(places, socket, master), database, queue, prefix }),
    prefix: kind === 'cluster' ? `{${prefix}:${queue}}` : prefix,
    ...{ lockMs, checkMs, fallback },
    sentinelUsername: own.get('sentinel-user'),
    sentinelPassword: own.get('sentinel-password'),
  }
}

/** @returns NaN for text that is not a number of seconds from 1 to MAX_SECONDS */
function secondsIn(text: string): number {
  const seconds = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN
  return seconds >= 1 && seconds <= MAX_SECONDS ? seconds : Number.NaN
}

function hostIn(text: string, defaultPort: number): RedisHost | undefined {
  const [, host, port = String(defaultPort)] = HOST.exec(text) ?? []
  if (host === undefined || Number(port) > 65_535) return undefined
  return { host: host.replace(/^\[|\]$/g, '').toLowerCase(), port: Number(port) }
}

function placeOf(hosts: readonly RedisHost[], path: string, master: string): string {
  const shown = hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`)
  return `${shown.join(',')}${path}${master === '' ? '' : `/${master}`}`
}

function nameFrom(text: string, own: Record<'place' | 'database' | 'queue' | 'prefix', string>): string {
  const scheme = text.slice(0, text.indexOf(':')).toLowerCase()
  const namespace = own.prefix === DEFAULT_PREFIX ? '' : `?prefix=${own.prefix}`
  return `${scheme}://${own.place}/${Number(own.database)}/${own.queue}${namespace}`
}

type Fault = (expected: string) => SpooldError

function optionsIn(query: string, fault: Fault): Map<string, string> {
  const options = new Map(new URLSearchParams(query))
  for (const [name, value] of options) {
    if (!OPTIONS.has(name))
      throw fault(`expected only ${[...OPTIONS].map(each => `${each}=`).join(', ')} after ?`)
    if (value === '') throw fault(`expected a value after ${name}=`)
  }
  return options
}

function loginIn(login: string | undefined, fault: Fault): ReadonlyArray<string | undefined> {
  const cut = login?.indexOf(':') ?? -1
  const parts = cut < 0 ? [login] : [login?.slice(0, cut), login?.slice(cut + 1)]
  try {
    return parts.map(part => (part === undefined || part === '' ? undefined : decodeURIComponent(part)))
  } catch {
    throw fault('expected %25 for a % in user and password')
  }
}

/**
 * Returns the error for an address. It masks everything between the scheme and the last `@`, because in a mistyped address the
 * password may be anywhere there.
 */
function invalid(expected: string, text: string): SpooldError {
  const masked = text
    .replace(/^([^:]*:\/*).*@/s, '$1…@')
    .replace(/([?&])([^=&]*)=([^&]*)/g, (all, mark, name) => (PUBLIC.has(name) ? all : `${mark}${name}=…`))
  const got = describe(masked)
  return new SpooldError('ADDRESS_INVALID', `${expected}, got ${got}`)
}
