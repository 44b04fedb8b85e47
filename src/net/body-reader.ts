import type { ByteBudget } from './byte-budget.js'
import { PeerLost } from './peer.js'

export interface BodyReaderOptions {
  readonly bytes: number
  readonly budget: ByteBudget
  /** The peer's next bytes; null when it sends no more. @throws PeerLost */
  read(deadlineMs: number): Promise<Buffer | null>
  /** Gives back what lies behind the body. */
  unread(rest: Buffer): void
  /** Another MiB has come. */
  progressed(): void
  /** How long the peer may be silent. */
  readonly timeoutMs: number
  /** The time limit for each MiB. */
  readonly requestTimeoutMs: number
}

const DEADLINE_BYTES = 1024 * 1024

/** The body behind a packet, as it comes off the wire: a chunk at a time, never more. */
export class BodyReader implements AsyncIterable<Buffer> {
  readonly #options: BodyReaderOptions
  #left: number
  #isBroken = false

  constructor(options: BodyReaderOptions) {
    this.#options = options
    this.#left = options.bytes
  }

  /** Each chunk counts against the budget until the next one is asked for. @throws PeerLost */
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

  /** Passes over what nobody has read. @returns whether it came whole, so that the next packet can be found */
  async skip(): Promise<boolean> {
    if (!this.#isBroken) for await (const _ of this);
    return !this.#isBroken
  }

  async #next(deadlineMs: number): Promise<Buffer> {
    this.#isBroken = true // until the bytes are there
    const chunk = await this.#options.read(deadlineMs)
    if (chunk === null) throw new PeerLost(`its body ended ${this.#left} bytes too early`)
    this.#isBroken = false
    const part = chunk.subarray(0, this.#left)
    this.#options.unread(chunk.subarray(part.length))
    this.#left -= part.length
    return part
  }
}
