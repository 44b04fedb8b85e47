import type { Socket } from 'node:net'
import { formatAddress } from '../base/address.js'

/** Node counts a timer's milliseconds in 31 bits. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** The other end is not worth waiting for any more: it is gone, or too slow. */
export class PeerLost extends Error {}

/** The other end of a connection, read and written at our pace: nothing is read that nobody asked for. */
export class Peer {
  readonly #socket: Socket
  readonly #waits = new Set<() => void>()
  #isDismissed = false
  #isChatty = false
  #isGathering = false

  constructor(socket: Socket) {
    this.#socket = socket
    for (const event of ['readable', 'end', 'close']) socket.on(event, () => this.#wake())
    socket.on('error', () => {}) // 'close' follows
  }

  /** Who it is, as far as the socket still knows. */
  get name(): string {
    const { remoteAddress: host, remotePort: port } = this.#socket
    if (host === undefined || port === undefined) return 'a unix socket, or a peer that has gone'
    return formatAddress({ kind: 'tcp', host: host.replace(/^::ffff:(?=.*\.)/, ''), port })
  }

  /** Many small replies will be written: what comes within one turn of the loop is sent together, and at once. */
  expectMore(): void {
    if (this.#isChatty) return
    this.#isChatty = true
    this.#socket.setNoDelay(true)
  }

  /**
   * The next bytes; null when it sends no more, or when it was dismissed.
   *
   * @param deadlineMs as `performance.now()` counts
   * @throws PeerLost
   */
  async read(deadlineMs: number): Promise<Buffer | null> {
    for (;;) {
      const chunk: Buffer | null = this.#isDismissed ? null : this.#socket.read()
      if (chunk !== null || this.#isDismissed || this.#socket.readableEnded) return chunk
      await this.#change(deadlineMs)
    }
  }

  /**
   * Resolves when the kernel has the bytes.
   *
   * @throws PeerLost when it does not read for so long
   */
  async write(bytes: Buffer, timeoutMs: number): Promise<void> {
    if (this.#socket.destroyed) throw new PeerLost('gone')
    if (this.#isChatty) this.#gather()
    this.#socket.write(bytes, () => this.#wake())
    const deadlineMs = performance.now() + timeoutMs
    while (this.#socket.writableLength > 0) await this.#change(deadlineMs)
  }

  /** Ends a wait for more of its requests. */
  dismiss(): void {
    this.#isDismissed = true
    this.#wake()
  }

  /**
   * Says that nothing more comes, and waits for the other end to go: closing with bytes unread would reset the connection
   * and take the last reply with it. What it still sends is thrown away.
   */
  async part(timeoutMs: number): Promise<void> {
    const deadlineMs = performance.now() + timeoutMs
    this.#isDismissed = false
    this.#socket.end()
    try {
      while ((await this.read(deadlineMs)) !== null);
    } catch {}
    this.close()
  }

  close(): void {
    this.#socket.destroy()
  }

  #gather(): void {
    if (this.#isGathering) return
    this.#isGathering = true
    this.#socket.cork()
    setImmediate(() => {
      this.#isGathering = false
      this.#socket.uncork()
    })
  }

  #wake(): void {
    for (const wake of this.#waits) wake()
  }

  /** Resolves when the socket has something to tell. */
  #change(deadlineMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new PeerLost('it is gone'))
      const settle = () => {
        clearTimeout(timer)
        this.#waits.delete(settle)
        if (this.#socket.destroyed) reject(new PeerLost('it is gone'))
        else if (performance.now() >= deadlineMs) reject(new PeerLost('it is too slow'))
        else resolve()
      }
      const timer = setTimeout(settle, Math.min(deadlineMs - performance.now(), MAX_TIMER_MS))
      this.#waits.add(settle)
    })
  }
}
