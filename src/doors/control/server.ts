import type { Server, Socket } from 'node:net'
import type { Role } from '../../formats/control/protocol.js'
import type { ActionTable } from './actions.js'
import { ControlConnection } from './connection.js'
import { CrowdGate } from './crowd-gate.js'

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
