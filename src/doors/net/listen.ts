import { constants, existsSync } from 'node:fs'
import { chmod, chown, lstat, open, readFile, readlink, rename, rm } from 'node:fs/promises'
import { connect, createServer, type ListenOptions, type Server, type Socket } from 'node:net'
import { dirname, resolve } from 'node:path'
import { descriptorPath } from '../../base/descriptor-path.js'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { type Address, formatAddress, socketPath } from '../../formats/protocol/address.js'

export interface ListenSettings {
  /** The maximum number of connections that wait to be accepted; the kernel caps it at net.core.somaxconn. */
  readonly backlog: number
  /** Mode and owner of a unix socket's file; null means the umask's mode and our own user. */
  readonly mode: number | null
  readonly owner: { readonly uid: number; readonly gid: number } | null
  accept(socket: Socket, listening: Server): void
}

/** A listening socket. */
export interface Listener {
  readonly address: Address
  /** Accepts no more connections. The file of a unix socket stays, as in uWSGI. */
  close(): void
  /** Removes a unix socket's file, unless another one has taken its name. @returns whether it did */
  removeFile(): Promise<boolean>
}

const IS_PADDED = libuvBefore(1, 48)

/**
 * Whether this Node pads the names of abstract sockets with zero bytes, so that programs other than Node do not find
 * them (libuv before 1.48: Node 20).
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

/**
 * The file is created under another name, gets its mode and owner, and is renamed. So it is never visible with wrong rights,
 * and a dead socket is replaced in one step. uWSGI removes any file of that name, even a live server's socket or a plain file.
 */
async function listenOnFile(path: string, settings: ListenSettings): Promise<Listener> {
  const hidden = `${path}.new`
  for (const each of [path, hidden]) await checkFree(each)
  await rm(hidden, { force: true })
  const server = await startServer({ path: hidden }, settings)
  try {
    await setRights(hidden, settings)
    const { ino } = await lstat(hidden)
    await rename(hidden, path)
    return listenerOf(server, { kind: 'unix', path }, ino)
  } catch (error) {
    server.close()
    await rm(hidden, { force: true })
    throw error
  }
}

/** Linux: names the socket itself, which cannot be opened. Node has no constant for it. */
const O_PATH = process.platform === 'linux' ? 0o10000000 : 0

/** Changes the socket that we created, not what may have replaced it: its directory may belong to another user. */
async function setRights(path: string, { mode, owner }: ListenSettings): Promise<void> {
  if (mode === null && owner === null) return
  const handle = O_PATH === 0 ? undefined : await open(path, O_PATH | constants.O_NOFOLLOW)
  try {
    const stats = handle === undefined ? await lstat(path) : await handle.stat()
    if (!stats.isSocket()) throw new Error(`${path} is no longer a socket`)
    const target = handle === undefined ? path : descriptorPath(handle.fd)
    if (mode !== null) await chmod(target, mode)
    if (owner !== null) await chown(target, owner.uid, owner.gid)
  } finally {
    await handle?.close()
  }
}

/** @throws Error if a program listens there, or it is not a socket */
async function checkFree(path: string): Promise<void> {
  const stats = await lstat(path).catch(() => undefined)
  if (stats === undefined) return
  if (!stats.isSocket()) throw new Error(`there is another file of this name, which is not a socket`)
  const answer = await new Promise<string>(resolve => {
    const socket = connect(path, () => resolve('connected'))
    socket.once('error', error => resolve(errnoOf(error) ?? ''))
    socket.once('close', () => resolve('no answer within 1 s')) // no effect after an earlier resolve
    socket.unref()
    setTimeout(() => socket.destroy(), 1000).unref()
  })
  if (answer === 'ECONNREFUSED' || answer === 'ENOENT') return
  throw new Error(`another program listens on it${answer === 'connected' ? '' : ` (${answer})`}`)
}

function startServer(
  options: ListenOptions | { readonly fd: number },
  settings: ListenSettings,
): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, socket =>
    settings.accept(socket, server),
  )
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ ...options, backlog: settings.backlog }, () => {
      server.off('error', reject)
      server.on('error', () => {}) // a connection could not be accepted: out of descriptors
      resolve(server)
    })
  })
}

function optionsOf(address: Exclude<Address, { kind: 'unix' }>): ListenOptions {
  if (address.kind === 'abstract') return { path: socketPath(address) }
  // as in uWSGI: without a host, all IPv4 addresses
  return { host: address.host === '' ? '0.0.0.0' : address.host, port: address.port }
}

/** The requested address, with the port that the kernel chose. */
function boundAddress(server: Server, asked: Address): Address {
  const bound = server.address()
  if (bound === null || typeof bound !== 'object') return asked // a unix socket
  const host = asked.kind === 'tcp' ? asked.host : bound.address
  return { kind: 'tcp', host, port: bound.port }
}

/** The path of a unix socket that another process has bound: the kernel's list has it, Node does not expose it. */
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

function listenerOf(server: Server, address: Address, inode?: number): Listener {
  return {
    address,
    close: () => void server.close(),
    async removeFile() {
      if (address.kind !== 'unix' || inode === undefined) return false
      const stats = await lstat(address.path).catch(() => undefined)
      if (stats?.ino !== inode) return false
      await rm(address.path)
      return true
    },
  }
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
  // libuv reports a missing directory as EACCES
  const directory = address.kind === 'unix' ? dirname(resolve(address.path)) : '/'
  if (errnoOf(error) === 'EACCES' && !existsSync(directory)) return `there is no directory ${directory}`
  return messageOf(error)
}

function libuvBefore(major: number, minor: number): boolean {
  const [a = 0, b = 0] = process.versions.uv.split('.').map(Number)
  return a < major || (a === major && b < minor)
}
