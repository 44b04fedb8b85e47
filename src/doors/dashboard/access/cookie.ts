import { createHash } from 'node:crypto'
import type { Context } from 'hono'
import type { Env } from '../world.js'

const ID = /^[A-Za-z0-9_-]{43}$/

/**
 * Returns the name of this dashboard's cookie. Each dashboard has its own, because browsers send a cookie to every port of a
 * host, and `ssh -L` shows the dashboards of several machines on one host.
 */
export function cookieNameOf({ at, incoming }: Env['Bindings']): string {
  const seenAt = `${incoming.headers.host} ${incoming.socket?.localPort ?? at.address}`
  return `spoold-${createHash('sha256').update(seenAt).digest('hex').slice(0, 8)}`
}

/** Returns the browser's id from its cookie; undefined if there is none in our format. */
export function idIn(env: Env['Bindings']): string | undefined {
  const name = cookieNameOf(env)
  const pairs = (env.incoming.headers.cookie ?? '').split(';').map(pair => pair.trim().split('='))
  const value = pairs.find(([each]) => each === name)?.[1]
  return value !== undefined && ID.test(value) ? value : undefined
}

/** Sets the cookie with a browser's id. The cookie is for TLS only if a proxy says that its user has TLS. */
export function giveId(c: Context<Env>, id: string): string {
  const { at, incoming } = c.env
  const isSecure = at.isProxied && incoming.headers['x-forwarded-proto'] === 'https'
  const rules = `Path=${at.prefix}/; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
  c.header('Set-Cookie', `${cookieNameOf(c.env)}=${id}; ${rules}`)
  return id
}
