/** The replies of one connection, in the order of its requests, however their work ends. */
export class Replies {
  readonly #write: (reply: Buffer) => Promise<void>
  readonly #lost: () => void
  /** Resolves when everything so far is answered. */
  #last: Promise<void> = Promise.resolve()
  #open = 0
  #bytes = 0
  #wake = () => {}

  /**
   * @param write may reject: then nobody is there to be answered
   * @param lost is called then
   */
  constructor(write: (reply: Buffer) => Promise<void>, lost: () => void) {
    this.#write = write
    this.#lost = lost
  }

  /** @param bytes what the request holds in memory meanwhile */
  push(reply: Promise<Buffer>, bytes: number): void {
    this.#open++
    this.#bytes += bytes
    this.#last = this.#answer(this.#last, reply, bytes)
    this.#last.catch(this.#lost)
  }

  /** Resolves when fewer than so many requests, with less than so many bytes, wait for their replies. */
  async room(requests: number, bytes: number): Promise<void> {
    while (this.#open >= requests || this.#bytes >= bytes)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
  }

  /** How many are not written yet. */
  get size(): number {
    return this.#open
  }

  /** @throws what kept a reply from being written */
  async done(): Promise<void> {
    await this.#last
  }

  async #answer(before: Promise<void>, reply: Promise<Buffer>, bytes: number): Promise<void> {
    const [previous, answer] = await Promise.allSettled([before, reply])
    try {
      if (previous.status === 'rejected') throw previous.reason
      if (answer.status === 'rejected') throw answer.reason
      await this.#write(answer.value)
    } finally {
      this.#open--
      this.#bytes -= bytes
      this.#wake()
    }
  }
}
