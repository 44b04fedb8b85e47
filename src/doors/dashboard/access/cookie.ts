import type { Context } from 'hono'
import type { Env } from '../world.js'

/** The cookie with a browser's id. */
const NAME = 'spoold'
const ID = /^[A-Za-z0-9_-]{43}$/

/** @returns undefined if there is none that could be ours */
export function idIn(header: string | undefined): string | undefined {
  const pairs = (header ?? '').split(';').map(pair => pair.trim().split('='))
  const value = pairs.find(([name]) => name === NAME)?.[1]
  return value !== undefined && ID.test(value) ? value : undefined
}

/** A proxy says that its user has TLS. */
export function giveId(c: Context<Env>, id: string): string {
  const { at, incoming } = c.env
  const isSecure = at.isProxied && incoming.headers['x-forwarded-proto'] === 'https'
  c.header('Set-Cookie', `${NAME}=${id}; Path=/; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`)
  return id
}
