import { isIP } from 'node:net'
import { describe, SpooldError } from '../../base/errors.js'
import { isRedisAddress } from './redis-address.js'

/** The address of a socket, as uWSGI accepts it for `socket`, `stats` and similar options. */
export type Address =
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'abstract'; readonly name: string }

interface AddressBlock {
  readonly address: string
  /** The number of leading bits that count. */
  readonly prefix: number
  readonly family: 'ipv4' | 'ipv6'
}

/** uWSGI's limit for paths and abstract names (core/socket.c, bind_to_unix); the kernel's is 108. */
const MAX_PATH_BYTES = 102

/**
 * Parses `host:port`, `[v6]:port`, `:port`, `/path` or `@abstract`. As in uWSGI, text without a colon is a path; here a path may
 * contain a colon if it begins with a slash or a dot.
 *
 * @throws SpooldError ADDRESS_INVALID
 */
export function parseAddress(text: string): Address {
  const abstract = /^(?:@|\\0|\0)(.*)$/s.exec(text)?.[1]
  if (abstract !== undefined) return { kind: 'abstract', name: short(abstract, text) }
  if (!text.includes(':') || /^\.?\.?\//.test(text)) return { kind: 'unix', path: short(text, text) }
  const [, v6, host = v6, port] = /^(?:\[([^\]]*)\]|([^:]*)):([0-9]{1,5})$/.exec(text) ?? []
  if (host === undefined || port === undefined || (v6 !== undefined && isIP(v6) !== 6)) throw invalid(text)
  if (Number(port) > 65_535) throw invalid(text, 'a port is at most 65535')
  return { kind: 'tcp', host, port: Number(port) }
}

/** Returns the form that people write and uWSGI prints. */
export function formatAddress(address: Address): string {
  switch (address.kind) {
    case 'tcp':
      return `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`
    case 'unix':
      return address.path
    case 'abstract':
      return `@${address.name}`
  }
}

/** True if only processes of this machine can reach the address. */
export function isLocal(address: Address): boolean {
  return address.kind !== 'tcp' || /^(localhost|127(\.[0-9]+){3}|::1)$/i.test(address.host)
}

/** Returns the path that `node:net` expects. In uWSGI the zero byte at the end of an abstract name is part of the name. */
export function socketPath(address: Exclude<Address, { kind: 'tcp' }>): string {
  return address.kind === 'unix' ? address.path : `\0${address.name}\0`
}

/**
 * Parses `10.0.0.0/8`, `fd00::/8`, or one address.
 *
 * @throws SpooldError ADDRESS_INVALID
 */
export function parseNetwork(text: string): AddressBlock {
  const [, address = '', bits] = /^([^/]+)(?:\/([0-9]{1,3}))?$/.exec(text.trim()) ?? []
  const version = isIP(address)
  const widest = version === 6 ? 128 : 32
  const prefix = bits === undefined ? widest : Number(bits)
  if (version === 0 || prefix > widest)
    throw new SpooldError(
      'ADDRESS_INVALID',
      `expected an address or a network such as 10.0.0.0/8, got ${describe(text)}`,
      { details: { got: text } },
    )
  return { address, prefix, family: version === 6 ? 'ipv6' : 'ipv4' }
}

function short(name: string, text: string): string {
  if (name === '' || name.includes('\0')) throw invalid(text)
  const bytes = Buffer.byteLength(name)
  if (bytes > MAX_PATH_BYTES)
    throw invalid(text, `the path of a socket takes at most ${MAX_PATH_BYTES} bytes, this one has ${bytes}`)
  return name
}

function invalid(text: string, why = ''): SpooldError {
  // an address on Redis may have a password
  const got = isRedisAddress(text) ? 'the address of a spool on Redis' : describe(text)
  const expected = `expected host:port, :port, /path/to/socket or @name, got ${got}`
  return new SpooldError('ADDRESS_INVALID', why === '' ? expected : `${expected}: ${why}`, {
    details: { got: text },
  })
}
