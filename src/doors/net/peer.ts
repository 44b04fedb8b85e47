import type { Socket } from 'node:net'
import { MAX_TIMER_MS } from '../../base/clock.js'
import { formatAddress } from '../../formats/protocol/address.js'

/** The other end is gone, or too slow to wait for. */
export class PeerLost extends Error {}

/** The other end of a connection, read and written at our pace: data is read only on demand. */
export class Peer {
  readonly #socket: Socket
  readonly #waits = new Set<() => void>()
  /** Chunks that are received, but not consumed yet: at most two. */
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

  /** The peer's address, as far as the socket still knows it. */
  get name(): string {
    const { remoteAddress: host, remotePort: port } = this.#socket
    if (host === undefined || port === undefined) return 'a unix socket, or a peer that has gone'
    return formatAddress({ kind: 'tcp', host: host.replace(/^::ffff:(?=.*\.)/, ''), port })
  }

  /** True while somebody waits for the peer's next bytes. */
  get isReading(): boolean {
    return this.#isReading
  }

  /** Disables Nagle's algorithm, because replies are already batched. */
  expectMore(): void {
    if (this.#isChatty) return
    this.#isChatty = true
    this.#socket.setNoDelay(true)
  }

  /**
   * Returns the next bytes; null if the peer sends no more, or was dismissed.
   *
   * @param deadlineMs in terms of `performance.now()`
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
   * @throws PeerLost if the peer does not read for this long
   */
  async write(bytes: Buffer, timeoutMs: number): Promise<void> {
    if (this.#socket.destroyed) throw new PeerLost('gone')
    this.#socket.write(bytes, () => this.#wake())
    if (this.#socket.writableLength === 0) return
    const deadlineMs = performance.now() + timeoutMs
    while (this.#socket.writableLength > 0) await this.#change(deadlineMs)
  }

  /** Ends a wait for more requests of the peer. */
  dismiss(): void {
    this.#isDismissed = true
    this.#wake()
  }

  /**
   * Sends end-of-stream, and waits for the other end to close, because closing with unread bytes would reset the connection and
   * lose the last reply. Further input is discarded.
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

  /** Destroys the socket once Node has flushed the last write: destroying it earlier creates an error object for nothing. */
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

  /** Resolves at the next event of the socket. */
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
