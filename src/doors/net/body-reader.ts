import { counted } from '../../base/counted.js'
import type { ByteBudget } from './byte-budget.js'
import { PeerLost } from './peer.js'

interface BodyReaderOptions {
  readonly bytes: number
  readonly budget: ByteBudget
  /** The peer's next bytes; null if it sends no more. @throws PeerLost */
  read(deadlineMs: number): Promise<Buffer | null>
  /** Puts back the bytes after the body. */
  unread(rest: Buffer): void
  /** Another MiB has arrived. */
  progressed(): void
  /** How long the peer may be silent. */
  readonly timeoutMs: number
  /** The time limit for each MiB. */
  readonly requestTimeoutMs: number
}

const DEADLINE_BYTES = 1024 * 1024

/** The body after a packet, read from the peer one chunk at a time. */
export class BodyReader implements AsyncIterable<Buffer> {
  readonly #options: BodyReaderOptions
  #left: number
  #isBroken = false

  constructor(options: BodyReaderOptions) {
    this.#options = options
    this.#left = options.bytes
  }

  /** Each chunk counts against the budget until the next one is requested. @throws PeerLost */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    const { budget, timeoutMs, requestTimeoutMs, progressed } = this.#options
    let deadlineMs = performance.now() + requestTimeoutMs
    let credit = DEADLINE_BYTES
    while (this.#left > 0) {
      const part = await this.#next(Math.min(performance.now() + timeoutMs, deadlineMs))
      credit -= part.length
      if (credit <= 0) {
        credit += DEADLINE_BYTES
        progressed()
        deadlineMs = performance.now() + requestTimeoutMs
      }
      await budget.take(part.length)
      try {
        yield part
      } finally {
        budget.give(part.length)
      }
    }
  }

  /** Discards the unread rest. @returns whether the body arrived in full, so that the next packet can be found */
  async skip(): Promise<boolean> {
    if (!this.#isBroken) for await (const _ of this);
    return !this.#isBroken
  }

  async #next(deadlineMs: number): Promise<Buffer> {
    this.#isBroken = true // until the bytes have arrived
    const chunk = await this.#options.read(deadlineMs)
    if (chunk === null) throw new PeerLost(`its body ended ${counted(this.#left, 'byte')} too early`)
    this.#isBroken = false
    const part = chunk.subarray(0, this.#left)
    this.#options.unread(chunk.subarray(part.length))
    this.#left -= part.length
    return part
  }
}
