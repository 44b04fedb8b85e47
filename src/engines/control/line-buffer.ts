const NEWLINE = 10

/** Received bytes, handed out line by line. A line that is too long is not kept. */
export class LineBuffer {
  readonly #limit: number
  #chunks: Buffer[] = []
  #bytes = 0

  /** @param limit bytes of a line, with its newline */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** A line has begun, and has not ended. */
  get isPartial(): boolean {
    return this.#bytes > 0
  }

  /** What it holds may be longer than a line by what the last `add` brought. */
  add(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
  }

  /** The next line, without its newline; undefined: it is not complete; null: it is too long. */
  next(): string | undefined | null {
    const whole = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks)
    if (whole === undefined) return undefined
    const end = whole.indexOf(NEWLINE)
    if (end >= this.#limit || (end < 0 && whole.length >= this.#limit)) return null
    this.#chunks = end < 0 ? [whole] : whole.length > end + 1 ? [whole.subarray(end + 1)] : []
    this.#bytes = end < 0 ? whole.length : whole.length - end - 1
    return end < 0 ? undefined : whole.toString('utf8', 0, end)
  }
}
