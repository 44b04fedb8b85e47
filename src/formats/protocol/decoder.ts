import { blockBytesOf, HEADER_BYTES, modifier1Of, modifier2Of } from './header.js'

/** One packet from the network. Its bytes, including the header, are a view of the chunk in which they arrived. */
export interface Packet {
  readonly modifier1: number
  readonly modifier2: number
  readonly bytes: Buffer
}

type Decoded =
  /** `rest` follows the packet: a body, or the next packet. */
  | { readonly kind: 'packet'; readonly packet: Packet; readonly rest: Buffer }
  /** More bytes are needed. The modifier is known once the header is complete. */
  | { readonly kind: 'partial'; readonly modifier1: number | undefined }
  /** The header announces more than the limit. The block is not read, and the stream cannot continue. */
  | { readonly kind: 'oversized'; readonly modifier1: number; readonly blockBytes: number }

const EMPTY = Buffer.alloc(0)
const FIRST_BYTES = 1024

/**
 * Extracts packets from chunks of any size. The limit is checked before memory is allocated: the decoder never holds more
 * than a packet of `limit` block bytes, nor more than twice what has arrived.
 */
export class PacketDecoder {
  readonly #limit: number
  #held = EMPTY
  #heldBytes = 0

  /** @param limit the maximum size of a block, in bytes (buffer-size) */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** The number of bytes of an incomplete packet that have arrived. */
  get heldBytes(): number {
    return this.#heldBytes
  }

  /** The memory that those bytes occupy, in bytes. */
  get reservedBytes(): number {
    return this.#held.length
  }

  take(chunk: Buffer): Decoded {
    if (this.#heldBytes === 0) {
      const whole = this.#decode(chunk, chunk.length)
      if (whole !== undefined && whole.kind !== 'partial') return whole
    }
    let at = this.#hold(chunk, 0, HEADER_BYTES)
    const header = this.#decode(this.#held, this.#heldBytes)
    if (header?.kind === 'oversized') return this.#forget(header)
    if (this.#heldBytes < HEADER_BYTES) return { kind: 'partial', modifier1: undefined }
    at = this.#hold(chunk, at, HEADER_BYTES + blockBytesOf(this.#held))
    const decoded = this.#decode(this.#held, this.#heldBytes)
    if (decoded?.kind !== 'packet') return { kind: 'partial', modifier1: modifier1Of(this.#held) }
    return this.#forget({ ...decoded, rest: chunk.subarray(at) })
  }

  /** Decodes the start of `bytes[0..end)`. */
  #decode(bytes: Buffer, end: number): Decoded | undefined {
    if (end < HEADER_BYTES) return undefined
    const modifier1 = modifier1Of(bytes)
    const blockBytes = blockBytesOf(bytes)
    if (blockBytes > this.#limit) return { kind: 'oversized', modifier1, blockBytes }
    const blockEnd = HEADER_BYTES + blockBytes
    if (end < blockEnd) return { kind: 'partial', modifier1 }
    const modifier2 = modifier2Of(bytes)
    const packet = { modifier1, modifier2, bytes: bytes.subarray(0, blockEnd) }
    return { kind: 'packet', packet, rest: bytes.subarray(blockEnd, end) }
  }

  /** Copies from `chunk[at..]` until `wanted` bytes are held. @returns the position in the chunk after the copied bytes */
  #hold(chunk: Buffer, at: number, wanted: number): number {
    const end = Math.min(chunk.length, at + Math.max(0, wanted - this.#heldBytes))
    const needed = this.#heldBytes + end - at
    if (needed > this.#held.length) {
      const grown = Buffer.allocUnsafe(Math.max(needed, Math.min(wanted, Math.max(FIRST_BYTES, needed * 2))))
      this.#held.copy(grown, 0, 0, this.#heldBytes)
      this.#held = grown
    }
    chunk.copy(this.#held, this.#heldBytes, at, end)
    this.#heldBytes = needed
    return end
  }

  #forget(decoded: Decoded): Decoded {
    this.#held = EMPTY
    this.#heldBytes = 0
    return decoded
  }
}
