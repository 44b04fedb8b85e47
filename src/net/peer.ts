import type { Socket } from 'node:net'
import { formatAddress } from '../protocol/address.js'

/** Node counts a timer's milliseconds in 31 bits. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** The other end is not worth waiting for any more: it is gone, or too slow. */
export class PeerLost extends Error {}

/** The other end of a connection, read and written at our pace: nothing is read that nobody asked for. */
export class Peer {
  readonly #socket: Socket
  readonly #waits = new Set<() => void>()
  /** Came, and was not taken yet: two chunks at most. */
  readonly #chunks: Buffer[] = []
  #isReading = false
  #hasEnded = false
  #isDismissed = false
  #isChatty = false

  /** @param socket paused, with nothing read from it */
  constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', chunk => this.#take(chunk))
    socket.on('end', () => {
      this.#hasEnded = true
      this.#wake()
    })
    socket.on('close', () => this.#wake())
    socket.on('error', () => {}) // 'close' follows
  }

  /** Who it is, as far as the socket still knows. */
  get name(): string {
    const { remoteAddress: host, remotePort: port } = this.#socket
    if (host === undefined || port === undefined) return 'a unix socket, or a peer that has gone'
    return formatAddress({ kind: 'tcp', host: host.replace(/^::ffff:(?=.*\.)/, ''), port })
  }

  /** Many small replies will be written, each with all that is known by then: they do not wait for one another. */
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
    this.#isReading = true
    try {
      for (;;) {
        const chunk = this.#isDismissed ? undefined : this.#chunks.shift()
        if (chunk !== undefined) return chunk
        if (this.#isDismissed || this.#hasEnded) return null
        if (this.#socket.isPaused()) this.#socket.resume()
        await this.#change(deadlineMs)
      }
    } finally {
      this.#isReading = false
    }
  }

  /**
   * Resolves when the kernel has the bytes.
   *
   * @throws PeerLost when it does not read for so long
   */
  async write(bytes: Buffer, timeoutMs: number): Promise<void> {
    if (this.#socket.destroyed) throw new PeerLost('gone')
    this.#socket.write(bytes, () => this.#wake())
    if (this.#socket.writableLength === 0) return
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

  /** After what was written last is through with Node: to destroy it earlier makes an error object that nobody reads. */
  close(): void {
    process.nextTick(() => this.#socket.destroy())
  }

  #take(chunk: Buffer): void {
    if (this.#chunks.push(chunk) > 1 || !this.#isReading) this.#socket.pause()
    this.#wake()
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
