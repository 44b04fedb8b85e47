import { existsSync } from 'node:fs'
import { readFile, readlink } from 'node:fs/promises'
import { createServer, type ListenOptions, type Server, type Socket } from 'node:net'
import { dirname, resolve } from 'node:path'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { type Address, formatAddress, socketPath } from '../../formats/protocol/address.js'
import { descriptorPath } from '../../system/descriptor-path.js'
import type { Bound, Opener } from '../../system/opener.js'

export interface ListenSettings {
  /** The maximum number of connections that wait to be accepted; the kernel caps it at net.core.somaxconn. */
  readonly backlog: number
  /** Mode and owner of a unix socket's file; null means the umask's mode and our own user. */
  readonly mode: number | null
  readonly owner: { readonly uid: number; readonly gid: number } | null
  /** Binds and removes unix sockets. */
  readonly files: Pick<Opener, 'bind' | 'remove'>
  accept(socket: Socket, listening: Server): void
}

/** A listening socket. */
export interface Listener {
  readonly address: Address
  /** Accepts no more connections. The file of a unix socket stays, as in uWSGI. */
  close(): void
  /** Removes a unix socket's file, unless another socket has taken its name. @returns true if it did */
  removeFile(): Promise<boolean>
}

const IS_PADDED = libuvBefore(1, 48)

/**
 * True if this Node pads the names of abstract sockets with zero bytes, so that programs other than Node do not find them (libuv
 * before 1.48: Node 20).
 */
export function padsAbstractNames(): boolean {
  return IS_PADDED
}

/** @throws SpooldError SOCKET_UNUSABLE */
export async function listen(address: Address, settings: ListenSettings): Promise<Listener> {
  try {
    if (address.kind === 'unix') return await listenOnFile(address.path, settings)
    const server = await startServer(optionsOf(address), settings)
    return listenerOf(server, address.kind === 'tcp' ? boundAddress(server, address) : address)
  } catch (error) {
    throw unusable(address, error)
  }
}

/** Takes over a descriptor that is already listening. @throws SpooldError SOCKET_UNUSABLE */
export async function adopt(fd: number, settings: ListenSettings): Promise<Listener> {
  try {
    const unixAddress = await unixAddressOf(fd)
    const server = await startServer({ fd }, settings)
    return listenerOf(server, boundAddress(server, unixAddress))
  } catch (error) {
    throw new SpooldError(
      'SOCKET_UNUSABLE',
      `descriptor ${fd}, which was handed over (LISTEN_FDS), is not a listening stream socket: ${messageOf(error)}`,
      { cause: error },
    )
  }
}

async function listenOnFile(path: string, settings: ListenSettings): Promise<Listener> {
  const { files, mode, owner } = settings
  const start = (at: Bound) => startServer(at, settings)
  const { server, inode } = await files.bind(path, { mode, owner }, start)
  return listenerOf(server, { kind: 'unix', path }, () => files.remove(path, inode))
}

const HOW = { allowHalfOpen: true, pauseOnConnect: true } as const

/** Makes a server whose connections are paused, and stay half-open when the other end closes. @throws the system's error */
export function startServer(
  options: ListenOptions | Bound,
  settings: Pick<ListenSettings, 'backlog' | 'accept'>,
): Promise<Server> {
  const isStarted = 'server' in options
  const server = isStarted ? Object.assign(options.server, HOW) : createServer(HOW)
  server.on('connection', socket => settings.accept(socket, server))
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    const begun = () => {
      server.off('error', reject)
      server.on('error', () => {}) // a connection could not be accepted: out of descriptors
      resolve(server)
    }
    if (isStarted) return begun()
    // if it listens on a descriptor, Node takes the backlog only from this argument
    if ('fd' in options) server.listen({ fd: options.fd }, settings.backlog, begun)
    else server.listen({ ...options, backlog: settings.backlog }, begun)
  })
}

function optionsOf(address: Exclude<Address, { kind: 'unix' }>): ListenOptions {
  if (address.kind === 'abstract') return { path: socketPath(address) }
  // as in uWSGI: without a host, all IPv4 addresses
  return { host: address.host === '' ? '0.0.0.0' : address.host, port: address.port }
}

/** Returns the requested address, with the port that the kernel chose. */
function boundAddress(server: Server, asked: Address): Address {
  const bound = server.address()
  if (bound === null || typeof bound !== 'object') return asked // a unix socket
  const host = asked.kind === 'tcp' ? asked.host : bound.address
  return { kind: 'tcp', host, port: bound.port }
}

/** Returns the path of a unix socket that another process has bound. The kernel's list has the path; Node does not expose it. */
async function unixAddressOf(fd: number): Promise<Address> {
  const inode = /^socket:\[(\d+)\]$/.exec(await readlink(descriptorPath(fd)))?.[1]
  const list = await readFile('/proc/net/unix', 'utf8').catch(() => '')
  const path = list
    .split('\n')
    .map(line => /^(?:\S+ +){6}(\d+) (.*)$/.exec(line))
    .find(fields => fields?.[1] === inode)?.[2]
  if (path === undefined) return { kind: 'unix', path: `fd ${fd}` }
  return path.startsWith('@')
    ? { kind: 'abstract', name: path.slice(1).replace(/@+$/, '') }
    : { kind: 'unix', path }
}

function listenerOf(server: Server, address: Address, removeFile = () => false): Listener {
  return { address, close: () => void server.close(), removeFile: async () => removeFile() }
}

function unusable(address: Address, error: unknown): SpooldError {
  const name = formatAddress(address)
  const reason = reasonOf(address, error)
  const advice =
    errnoOf(error) === 'EACCES' && address.kind === 'tcp'
      ? '; ports below 1024 need root, or another port'
      : ''
  return new SpooldError('SOCKET_UNUSABLE', `cannot listen on socket ${name}: ${reason}${advice}`, {
    cause: error,
    details: { address: name },
  })
}

function reasonOf(address: Address, error: unknown): string {
  if (errnoOf(error) === 'EADDRINUSE') return 'another program listens on it'
  const directory = address.kind === 'unix' ? dirname(resolve(address.path)) : '/'
  if (errnoOf(error) === 'ENOENT' && !existsSync(directory)) return `there is no directory ${directory}`
  return messageOf(error)
}

function libuvBefore(major: number, minor: number): boolean {
  const [a = 0, b = 0] = process.versions.uv.split('.').map(Number)
  return a < major || (a === major && b < minor)
}
