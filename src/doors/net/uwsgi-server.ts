import { BlockList, isIP, type Socket } from 'node:net'
import type { Options } from '../../formats/config/option-table.js'
import { parseNetwork } from '../../formats/protocol/address.js'
import { ByteBudget } from './byte-budget.js'
import { Connection, type ConnectionActions } from './connection.js'
import { FairTurns } from './fair-turns.js'
import { Peer } from './peer.js'

interface ServerActions extends Omit<ConnectionActions, 'budget' | 'turns' | 'progressed'> {
  turnedAway(peer: string, because: string): void
}

/** The maximum amount of data in flight to the disk, in bytes. */
const BUDGET_BYTES = 16 * 1024 * 1024
/** Requests per turn of the event loop: a fraction of a millisecond. */
const TURN_REQUESTS = 64

/**
 * Serves uWSGI's protocol on any number of listening sockets.
 *
 * States: closed (connections wait) → open → stopping → stopped.
 */
export class UwsgiServer {
  readonly #actions: ServerActions & ConnectionActions
  /** In the order of their last progress, the oldest first. */
  readonly #connections = new Set<Connection>()
  readonly #serving = new Set<Promise<void>>()
  readonly #opened: Promise<void>
  #open = () => {}
  #options: Options
  #allowed: BlockList | undefined
  #isStopping = false

  /** @throws SpooldError ADDRESS_INVALID if an allowed network is invalid */
  constructor(options: Options, actions: ServerActions) {
    this.#actions = {
      ...actions,
      budget: new ByteBudget(BUDGET_BYTES),
      turns: new FairTurns(TURN_REQUESTS),
      progressed: connection => this.#putLast(connection),
    }
    this.#options = options
    this.#allowed = allowList(options.socketAllow)
    this.#opened = new Promise(open => {
      this.#open = open
    })
  }

  /** The number of connected peers. */
  get connections(): number {
    return this.#connections.size
  }

  open(): void {
    this.#open()
  }

  /** Sets the options of future connections. @throws SpooldError ADDRESS_INVALID */
  change(options: Options): void {
    this.#allowed = allowList(options.socketAllow)
    this.#options = options
  }

  /** Serves an accepted connection. It has to be paused, and stay half-open when the other end closes. */
  accept(socket: Socket): void {
    const peer = new Peer(socket)
    if (this.#isStopping) return peer.close()
    if (!this.#isAllowed(socket)) return this.#turnAway(peer, 'socket-allow does not name it')
    const isFull = this.#connections.size >= this.#options.socketMaxConnections
    if (isFull && !this.#dropOldest()) return this.#turnAway(peer, 'socket-max-connections is reached')
    const connection = new Connection(peer, this.#options, this.#actions)
    this.#connections.add(connection)
    const serving = this.#serve(connection)
    this.#serving.add(serving)
    void serving.then(() => this.#serving.delete(serving))
  }

  /** Resolves when every request that had started has its reply. Requests that take longer than `mercyMs` are aborted. */
  async stop(mercyMs: number): Promise<void> {
    this.#isStopping = true
    this.#open()
    for (const connection of this.#connections) connection.finish()
    const timer = setTimeout(() => this.kill(), mercyMs)
    await Promise.all(this.#serving)
    clearTimeout(timer)
  }

  kill(): void {
    this.#isStopping = true
    this.#open()
    for (const connection of this.#connections) connection.close()
  }

  #turnAway(peer: Peer, because: string): void {
    this.#actions.turnedAway(peer.name, because)
    peer.close()
  }

  async #serve(connection: Connection): Promise<void> {
    await this.#opened
    await connection.serve()
    this.#connections.delete(connection)
  }

  #putLast(connection: Connection): void {
    if (this.#connections.delete(connection)) this.#connections.add(connection)
  }

  /** Disconnects the waiting peer that has made no progress for longest. @returns false if no peer is waiting */
  #dropOldest(): boolean {
    for (const connection of this.#connections)
      if (connection.isWaiting) {
        this.#connections.delete(connection)
        connection.close()
        return true
      }
    return false
  }

  #isAllowed(socket: Socket): boolean {
    if (this.#allowed === undefined) return true // reading the address costs a system call
    const { remoteAddress } = socket
    if (remoteAddress === undefined) return socket.localAddress === undefined // a unix socket; otherwise the peer is gone
    const address = remoteAddress.replace(/^::ffff:(?=.*\.)/, '')
    return this.#allowed.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  }
}

function allowList(networks: readonly string[]): BlockList | undefined {
  if (networks.length === 0) return undefined
  const list = new BlockList()
  for (const network of networks) {
    const { address, prefix, family } = parseNetwork(network)
    list.addSubnet(address, prefix, family)
  }
  return list
}
