import type { IncomingHttpHeaders } from 'node:http'
import { ROLES, type Role } from '../../../base/task/roles.js'
import { parseAddress } from '../../../formats/protocol/address.js'
import { nameFault } from '../../../formats/protocol/named.js'
import type { DashboardAddress } from '../../net/dashboard-address.js'
import type { Sessions } from './sessions.js'
import type { Tokens } from './tokens.js'

/** Who makes a request, and what they may do. */
export interface Visitor {
  /** The name for the audit, and for the head of a page. */
  readonly name: string
  readonly role: Role
  readonly mayReadPayload: boolean
  /** True if the visitor logged in with a token, and so can log out. */
  readonly hasSession: boolean
}

interface Access {
  readonly tokens: Tokens | null
  readonly sessions: Sessions
}

/** The headers in which a proxy says who its user is. They count only on a socket that only the proxy can open. */
const PROXY_HEADERS = {
  user: 'x-spoold-user',
  role: 'x-spoold-role',
  payload: 'x-spoold-payload',
} as const

/** `forbidden`: a proxy has not said properly who its user is. `unknown`: the visitor may log in with a token. */
type Unknown = 'unknown' | 'forbidden'

/**
 * Returns who makes a request. On a unix socket, the socket itself or its proxy says so. On TCP, the token of the session says
 * so; where there is no file of tokens, anybody on this machine may read counts and names.
 *
 * @param id the browser's id, from the cookie
 */
export async function visitorOf(
  at: DashboardAddress,
  headers: IncomingHttpHeaders,
  id: string | undefined,
  { tokens, sessions }: Access,
): Promise<Visitor | Unknown> {
  const { address, role, mayReadPayload, isProxied } = at
  if (isProxied) return proxysUser(at, headers)
  if (parseAddress(address).kind === 'unix')
    return { name: `who opens ${address}`, role, mayReadPayload, hasSession: false }
  if (tokens === null) return { name: 'anybody', role: 'viewer', mayReadPayload: false, hasSession: false }
  const hash = id === undefined ? undefined : sessions.tokenHashOf(id)
  const token = hash === undefined ? undefined : await tokens.withHash(hash)
  return token === undefined ? 'unknown' : { ...token, hasSession: true }
}

function proxysUser(
  { role, mayReadPayload }: DashboardAddress,
  headers: IncomingHttpHeaders,
): Visitor | Unknown {
  const said = (name: string) => String(headers[name] ?? '')
  const [user, asked, payload] = [PROXY_HEADERS.user, PROXY_HEADERS.role, PROXY_HEADERS.payload].map(said)
  const known = asked === '' ? role : ROLES.find(each => each === asked)
  const isRight =
    nameFault(user) === undefined && known !== undefined && ['', 'on', 'off'].includes(payload ?? '')
  if (!isRight || user === undefined || known === undefined) return 'forbidden'
  const maySee = payload === '' ? mayReadPayload : payload === 'on'
  return { name: user, role: known, mayReadPayload: maySee, hasSession: false }
}
