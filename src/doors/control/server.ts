import type { Server, Socket } from 'node:net'
import type { Role } from '../../formats/control/protocol.js'
import type { ActionTable } from './actions.js'
import { ControlConnection } from './connection.js'

/** Connections of one socket. A new one replaces the one that has asked for nothing for longest. */
const MAX_CONNECTIONS = 64

/** Serves the control protocol on one socket. The sockets of a daemon have limits of their own: viewers shut no operator out. */
export class ControlServer {
  readonly #role: Role
  readonly #actions: ActionTable
  readonly #gate = new CrowdGate()
  /** In order of their last request, the oldest first. */
  readonly #connections = new Set<ControlConnection>()

  constructor(role: Role, actions: ActionTable) {
    this.#role = role
    this.#actions = actions
  }

  /** @param listening where it came in */
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

/** What a `net.Server` has. */
interface Listening {
  maxConnections: number
}

/** So many connections are let in within one window. */
const MOST = 64
const WINDOW_MS = 500

/**
 * Turns a crowd away that comes faster than this, and comes again. What the server itself closes, before there is a socket, costs
 * a tenth of a connection that is served. Nothing of it has been read, so who is turned away may safely try again.
 */
export class CrowdGate {
  readonly #now: () => number
  #came = 0
  #opensAt = 0

  /** @param now monotonic milliseconds */
  constructor(now = () => performance.now()) {
    this.#now = now
  }

  /** To be called for each connection that was let in. */
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
      this.#opensAt = 0 // timers are early by up to a millisecond: who comes within it counts for the next window
    }, this.#opensAt - now).unref()
  }
}
