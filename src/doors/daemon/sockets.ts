import { readFileSync } from 'node:fs'
import { messageOf, quietly, SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { Request } from '../../base/task/request.js'
import type { Enqueuer } from '../../engines/enqueuer.js'
import type { SpoolTargets } from '../../engines/targets.js'
import type { Options } from '../../formats/config/option-table.js'
import { type Address, formatAddress, isLocal, parseAddress } from '../../formats/protocol/address.js'
import { MAX_BLOCK_BYTES } from '../../formats/protocol/header.js'
import type { SocketSnapshot } from '../../runtime/stats/snapshot.js'
import { findGroup, findUser } from '../../system/identity.js'
import { adopt, type Listener, type ListenSettings, listen, padsAbstractNames } from '../net/listen.js'
import { UwsgiServer } from '../net/uwsgi-server.js'

interface DaemonSocketsContext {
  readonly events: Emitter
  readonly files: ListenSettings['files']
  /** Descriptors that were passed to the process, already listening. */
  readonly inherited: readonly number[]
  /** Resolves a path of the configuration. */
  resolve(path: string): string
  /** @returns false if there is no room for the signal */
  raise(signal: number): boolean
}

/** The daemon's sockets: from the options to a server that stores tasks. */
export class DaemonSockets {
  readonly #context: DaemonSocketsContext
  readonly #server: UwsgiServer
  readonly #options: Options
  #listeners: Listener[] = []
  #targets: SpoolTargets | undefined

  /** @throws SpooldError ADDRESS_INVALID */
  constructor(options: Options, context: DaemonSocketsContext) {
    const { events } = context
    this.#context = context
    this.#options = options
    this.#server = new UwsgiServer(bounded(options), {
      storeAtOnce: (request, spooler) => this.#storeAtOnce(request, spooler),
      store: (request, spooler, bodyBytes) => this.#store(request, spooler, bodyBytes),
      raise: signal => context.raise(signal),
      refused: (peer, error) => events.emit('request-refused', { peer, error: messageOf(error) }),
      unavailable: (peer, modifier1) => events.emit('modifier-unavailable', { peer, modifier1 }),
      turnedAway: (peer, because) => events.emit('peer-turned-away', { peer, because }),
    })
  }

  /**
   * Listens, with the privileges that the process has at its start. Connections wait until `serve`.
   *
   * @throws SpooldError SOCKET_UNUSABLE; no socket is left listening
   */
  async listen(): Promise<void> {
    const { files } = this.#context
    const settings = { ...listenSettings(this.#options, socket => this.#server.accept(socket)), files }
    try {
      for (const fd of this.#context.inherited) this.#add(await adopt(fd, settings), 'inherited')
      const handedOver = this.#listeners.map(({ address }) => address)
      for (const text of this.#options.socket) {
        const asked = parseAddress(text)
        const address: Address =
          asked.kind === 'unix' ? { kind: 'unix', path: this.#context.resolve(asked.path) } : asked
        if (!handedOver.some(each => isSame(each, address)))
          this.#add(await listen(address, settings), 'bound', asked)
      }
    } catch (error) {
      await this.close(true)
      throw error
    }
  }

  /** Starts serving, or continues with new limits and spools. The sockets themselves stay unchanged. */
  serve(options: Options, targets: SpoolTargets): void {
    this.#targets = targets
    this.#server.change(bounded(options))
    this.#server.open()
  }

  /** For people and monitoring. */
  get stats(): SocketSnapshot[] {
    const { connections } = this.#server
    const { listen: backlog } = this.#options
    return this.#listeners.map(({ address }) => ({ address: formatAddress(address), backlog, connections }))
  }

  /** Accepts no more connections; resolves when the requests in progress are answered. */
  async stop(mercyMs: number): Promise<void> {
    for (const listener of this.#listeners) listener.close()
    await this.#server.stop(mercyMs)
  }

  /** Closes all connections at once. */
  kill(): void {
    for (const listener of this.#listeners) listener.close()
    this.#server.kill()
  }

  /** Closes the sockets themselves. Call it last. */
  async close(isVacuum: boolean): Promise<void> {
    this.kill()
    if (isVacuum) for (const listener of this.#listeners) await this.#removeFile(listener)
  }

  #storeAtOnce(request: Request, spooler: Buffer | undefined): boolean {
    const stored = this.#target(spooler).storeAtOnce?.(request)
    if (stored === undefined) return false
    this.#context.events.emit('request-stored', { path: stored.path, bytes: request.packet.length })
    return true
  }

  async #store(request: Request, spooler: Buffer | undefined, bodyBytes: number): Promise<void> {
    const { path } = await this.#target(spooler).store(request)
    this.#context.events.emit('request-stored', { path, bytes: request.packet.length + bodyBytes })
  }

  /** @throws SpooldError REQUEST_INVALID */
  #target(spooler: Buffer | undefined): Enqueuer {
    const spool = this.#targets?.known(spooler)
    if (spool !== undefined) return spool
    throw new SpooldError('REQUEST_INVALID', `unable to find spooler "${spooler?.toString('utf8') ?? ''}"`)
  }

  #add(listener: Listener, how: 'bound' | 'inherited', asked?: Address): void {
    const { address } = listener
    const number = this.#listeners.push(listener) - 1
    const isAutoPort = asked?.kind === 'tcp' && asked.port === 0
    const family = { tcp: 'TCP', unix: 'UNIX', abstract: 'UNIX' }[address.kind]
    const version = address.kind === 'tcp' && address.host.includes(':') ? '6' : ''
    this.#context.events.emit('socket-opened', {
      number,
      how,
      family: `${family}${version}`,
      address: asked?.kind === 'unix' ? formatAddress(asked) : formatAddress(address),
      isAutoPort,
    })
    if (how === 'inherited') this.#checkReach(address)
    if (address.kind === 'abstract' && how === 'bound' && padsAbstractNames())
      this.#warn(
        `socket ${formatAddress(address)}: this Node (${process.version}) pads the names of abstract sockets, so that only programs on such a Node find it; Node 22 and later do not`,
      )
  }

  /** Warns about an inherited socket that anyone can reach. @throws SpooldError SOCKET_UNUSABLE with `strict` */
  #checkReach(address: Address): void {
    if (isLocal(address) || this.#options.socketAllow.length > 0) return
    const problem = `anyone who can reach ${formatAddress(address)} can run tasks; name the allowed networks with socket-allow`
    if (this.#options.strict) throw new SpooldError('SOCKET_UNUSABLE', problem)
    this.#warn(problem)
  }

  #warn(message: string): void {
    this.#context.events.emit('config-warning', { message })
  }

  async #removeFile(listener: Listener): Promise<void> {
    const { events } = this.#context
    const file = formatAddress(listener.address)
    try {
      if (await listener.removeFile()) events.emit('socket-removed', { file })
    } catch (error) {
      events.emit('socket-left', { file, error: messageOf(error) })
    }
  }
}

/** `:3031` in an ini and `[::]:3031` from systemd are the same. */
function isSame(a: Address, b: Address): boolean {
  if (a.kind !== 'tcp' || b.kind !== 'tcp') return formatAddress(a) === formatAddress(b)
  const isAny = ({ host }: { readonly host: string }) => ['', '0.0.0.0', '::'].includes(host)
  return a.port === b.port && (a.host === b.host || (isAny(a) && isAny(b)))
}

/** Returns the options within what a packet can hold, and this process can open. */
function bounded(options: Options): Options {
  return {
    ...options,
    bufferSize: Math.min(options.bufferSize, MAX_BLOCK_BYTES),
    socketMaxConnections: Math.min(options.socketMaxConnections, descriptorLimit()),
  }
}

/**
 * The limit of connections: three quarters of the file descriptors of this process, two per connection with a body.
 * The rest is for workers and logs.
 */
function descriptorLimit(): number {
  const limits = quietly(() => readFileSync('/proc/self/limits', 'utf8'), '')
  const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
  return soft === undefined ? Number.POSITIVE_INFINITY : Math.max(16, Math.floor((Number(soft) * 0.75) / 2))
}

function listenSettings(options: Options, accept: ListenSettings['accept']): Omit<ListenSettings, 'files'> {
  const [user, group] = options.chownSocket?.split(':') ?? []
  // the largest gid_t is chown(2)'s -1, which leaves the group as it is
  const gid = group === undefined ? 2 ** 32 - 1 : (findGroup(group) ?? 2 ** 32 - 1)
  const uid = user === undefined ? undefined : findUser(user)
  return {
    backlog: options.listen,
    mode: options.chmodSocket,
    owner: uid === undefined ? null : { uid, gid },
    accept,
  }
}
