const NEWLINE = 10

/** Received bytes, handed out line by line. A line that is too long is not kept. */
export class LineBuffer {
  readonly #limit: number
  #chunks: Buffer[] = []
  #bytes = 0
  /** How many of the chunks are known to have no newline, so that each byte is looked at once, however small the chunks are. */
  #searched = 0
  /** The number of bytes in those chunks. */
  #searchedBytes = 0

  /** @param limit the maximum bytes of a line, with its newline */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** True if a line has begun and has not ended. */
  get isPartial(): boolean {
    return this.#bytes > 0
  }

  /** Adds received bytes. The buffer may exceed the limit of a line by the last chunk. */
  add(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
  }

  /** Returns the next line without its newline; undefined: it is not complete; null: it is too long. */
  next(): string | undefined | null {
    for (; this.#searched < this.#chunks.length; this.#searched++) {
      const chunk = this.#chunks[this.#searched] ?? Buffer.alloc(0)
      const end = chunk.indexOf(NEWLINE)
      if (end >= 0) return this.#take(this.#searchedBytes + end)
      this.#searchedBytes += chunk.length
      if (this.#searchedBytes >= this.#limit) return null
    }
    return undefined
  }

  /** @param end where the newline is */
  #take(end: number): string | null {
    if (end >= this.#limit) return null
    const whole = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks)
    const rest = whole?.subarray(end + 1) ?? Buffer.alloc(0)
    this.#chunks = rest.length === 0 ? [] : [rest]
    this.#bytes = rest.length
    this.#searched = 0
    this.#searchedBytes = 0
    return whole?.toString('utf8', 0, end) ?? ''
  }
}
