/** The replies of one connection, in the order of its requests, however long each takes to be found. */
export class Replies {
  readonly #write: (reply: Buffer) => Promise<void>
  readonly #lost: () => void
  /** Resolves when every reply so far is on its way. */
  #last: Promise<void> = Promise.resolve()
  #open = 0
  #bytes = 0
  /** Nobody reads them any more. What has come is still done. */
  #isLost = false
  #wake = () => {}

  /**
   * @param write resolves when the kernel has the bytes; may reject: then nobody is there to be answered
   * @param lost is called then
   */
  constructor(write: (reply: Buffer) => Promise<void>, lost: () => void) {
    this.#write = write
    this.#lost = lost
  }

  /**
   * @param reply never rejects
   * @param bytes what the request holds in memory meanwhile
   */
  push(reply: Promise<Buffer> | Buffer, bytes: number): void {
    this.#open++
    this.#bytes += bytes
    this.#last = this.#answer(this.#last, reply, bytes)
  }

  /** Resolves when fewer than so many requests, with less than so many bytes, wait for their replies. */
  async room(requests: number, bytes: number): Promise<void> {
    while (this.#open >= requests || this.#bytes >= bytes) await this.#change()
  }

  /** How many are not written yet. */
  get size(): number {
    return this.#open
  }

  /** Resolves when every reply is written, or lost. */
  async done(): Promise<void> {
    while (this.#open > 0) await this.#change()
  }

  async #answer(before: Promise<void>, reply: Promise<Buffer> | Buffer, bytes: number): Promise<void> {
    const answer = await reply
    await before
    void this.#flush(answer, bytes) // the next one does not wait for it: replies that are found together go together
  }

  async #flush(answer: Buffer, bytes: number): Promise<void> {
    if (!this.#isLost) await this.#write(answer).catch(() => this.#lose())
    this.#open--
    this.#bytes -= bytes
    this.#wake()
  }

  #lose(): void {
    if (this.#isLost) return
    this.#isLost = true
    this.#lost()
  }

  /** There is one who waits: the connection. */
  #change(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }
}
