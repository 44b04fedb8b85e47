import type { Server, Socket } from 'node:net'
import type { Role } from '../../formats/control/protocol.js'
import type { ActionTable } from './actions.js'
import { ControlConnection } from './connection.js'
import { CrowdGate } from './crowd-gate.js'

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
