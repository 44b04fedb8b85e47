import type { Socket } from 'node:net'

/** The most clients of one server. */
const MAX_CLIENTS = 128

/** The clients of one server. When there are too many, a new one takes the place of the oldest. */
export class Clients {
  readonly #sockets = new Set<Socket>()

  add(socket: Socket): void {
    const [oldest] = this.#sockets
    if (oldest !== undefined && this.#sockets.size >= MAX_CLIENTS) {
      this.#sockets.delete(oldest)
      oldest.destroy()
    }
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
    socket.on('error', () => {}) // the client has hung up
  }
}
