import type { Server, Socket } from 'node:net'
import type { Role } from '../../formats/control/protocol.js'
import type { ActionTable } from './actions.js'
import { ControlConnection } from './connection.js'

/** The most connections of one socket. A new one replaces the one whose last request is the oldest. */
const MAX_CONNECTIONS = 64

/**
 * Serves the control protocol on one socket. Each socket of a daemon has limits of its own, so that viewers shut no operator out.
 */
export class ControlServer {
  readonly #role: Role
  readonly #actions: ActionTable
  readonly #gate = new CrowdGate()
  /** In the order of their last request, the oldest first. */
  readonly #connections = new Set<ControlConnection>()

  constructor(role: Role, actions: ActionTable) {
    this.#role = role
    this.#actions = actions
  }

  /** @param listening the server that accepted the connection */
  accept(socket: Socket, listening: Server): void {
    this.#gate.passed(listening)
    const [oldest] = this.#connections
    if (this.#connections.size >= MAX_CONNECTIONS && oldest !== undefined) {
      this.#connections.delete(oldest)
      oldest.close()
    }
    const connection = new ControlConnection(socket, this.#role, this.#actions, () => {
      if (this.#connections.delete(connection)) this.#connections.add(connection)
    })
    this.#connections.add(connection)
    void connection.whenGone.then(() => this.#connections.delete(connection))
  }

  /** Closes all connections at once. */
  close(): void {
    for (const connection of this.#connections) connection.close()
  }
}

/** The part of a `net.Server` that is used here. */
interface Listening {
  maxConnections: number
}

/** How many connections are let in within one window. */
const MOST = 64
const WINDOW_MS = 500

/**
 * Turns away a crowd that comes faster than this, and comes again. A connection that the server itself closes, before there is a
 * socket, costs a tenth of one that is served. Nothing of it has been read, so the client may safely try again.
 */
export class CrowdGate {
  readonly #now: () => number
  #came = 0
  #opensAt = 0

  /** @param now monotonic milliseconds */
  constructor(now = () => performance.now()) {
    this.#now = now
  }

  /** Counts a connection that was let in. Call it for each. */
  passed(server: Listening): void {
    const now = this.#now()
    if (now >= this.#opensAt) {
      this.#came = 0
      this.#opensAt = now + WINDOW_MS
    }
    if (++this.#came !== MOST) return
    server.maxConnections = 1 // Node 20 takes 0 for no limit
    setTimeout(() => {
      server.maxConnections = Number.POSITIVE_INFINITY
      this.#opensAt = 0 // timers are up to a millisecond early: connections within that time count for the next window
    }, this.#opensAt - now).unref()
  }
}
