import { SpooldError } from '../../base/errors.js'
import { ROLES, type Role } from '../../base/task/roles.js'
import { isLocal, parseAddress } from '../../formats/protocol/address.js'

/** Where the dashboard listens, and which rights its visitors have there: a value of `spooler-dashboard`. */
export interface DashboardAddress {
  /** The address as the option has it: host:port, or a path with a slash. */
  readonly address: string
  /** The mode of a unix socket. */
  readonly mode: number
  /** The role of whoever may open the unix socket; behind a proxy, the role of users for whom the proxy names none. */
  readonly role: Role
  readonly mayReadPayload: boolean
  /** True if only a proxy can open the socket. The proxy says in headers who its user is. */
  readonly isProxied: boolean
  /** The names under which browsers reach the dashboard, besides localhost and IP addresses. */
  readonly hosts: readonly string[]
  /** The path below which browsers see the dashboard, such as `/tasks`; empty: at the root. */
  readonly prefix: string
}

const EXPECTED =
  'expected HOST:PORT or PATH[,role=viewer|operator|admin][,payload][,proxy][,mode=0660], each with [,host=NAME] and [,prefix=/PATH]'
const PREFIX = /^(?:\/[A-Za-z0-9._~-]+)*$/
/**
 * The default modes. Sockets for acting are open to the daemon's own user, and root; those for viewers and proxies also to its
 * group.
 */
const OWN_MODE = 0o600
const GROUP_MODE = 0o660
const OTHERS_WRITE = 0o002

/** @throws SpooldError ADDRESS_INVALID */
export function parseDashboard(text: string): DashboardAddress {
  const [address = '', ...rest] = text.split(',').map(part => part.trim())
  const isUnix = parseAddress(address).kind === 'unix'
  const words = rest.filter(word => !word.includes('='))
  const values = rest.filter(word => word.includes('=')).map(word => cut(word))
  const all = (name: string) => values.filter(([key]) => key === name).map(([, value]) => value)
  const [isProxied, mayReadPayload] = [words.includes('proxy'), words.includes('payload')]
  const [role = 'viewer'] = all('role')
  const known = ROLES.find(each => each === role)
  const [mode = ''] = all('mode')
  const prefix = (all('prefix').at(-1) ?? '').replace(/\/$/, '')
  const isKnown =
    PREFIX.test(prefix) &&
    words.every(word => word === 'proxy' || word === 'payload') &&
    values.every(([key, value]) => ['role', 'mode', 'host', 'prefix'].includes(key) && value !== '')
  if (!isKnown || known === undefined || !/^(?:[0-7]{3,4})?$/.test(mode)) throw wrong(text, EXPECTED)
  if (address.startsWith('@'))
    throw wrong(text, `${EXPECTED}: anybody on this machine can open an abstract socket`)
  if (!isUnix && (rest.length > all('host').length + all('prefix').length || address === ''))
    throw wrong(
      text,
      'role, payload, proxy and mode are for unix sockets; on HOST:PORT there are spooler-dashboard-tokens',
    )
  const isShared = isProxied || known === 'viewer'
  const given = mode === '' ? (isShared ? GROUP_MODE : OWN_MODE) : Number.parseInt(mode, 8)
  if ((isProxied || known !== 'viewer' || mayReadPayload) && (given & OTHERS_WRITE) !== 0)
    throw wrong(text, `with mode ${mode}, everybody on this machine could open it`)
  const hosts = all('host').map(host => host.toLowerCase())
  return { address, mode: given, role: known, mayReadPayload, isProxied, hosts, prefix }
}

function cut(word: string): readonly [key: string, value: string] {
  return [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]
}

/** True if other machines can reach the dashboard. */
export function isReachable({ address }: DashboardAddress): boolean {
  return !isLocal(parseAddress(address))
}

function wrong(text: string, why: string): SpooldError {
  return new SpooldError('ADDRESS_INVALID', `${why}, got ${JSON.stringify(text)}`)
}
