import { Queue } from '../../base/queue.js'

/** A reply that is not written yet. `reply` is undefined until it is known. */
interface Due {
  reply: Buffer | undefined
  readonly bytes: number
}

/** The replies of one connection, in the order of its requests, however long each takes. */
export class ReplyQueue {
  readonly #write: (replies: Buffer) => Promise<void>
  readonly #lost: () => void
  readonly #due = new Queue<Due>()
  /** Known replies, to be written next. */
  #found: Buffer[] = []
  #open = 0
  #bytes = 0
  /** True if the peer no longer reads replies. Requests that have arrived are still processed. */
  #isLost = false
  #wake = () => {}

  /** @param write resolves when the kernel has the bytes; rejects if the peer is gone @param lost called if the peer is gone */
  constructor(write: (replies: Buffer) => Promise<void>, lost: () => void) {
    this.#write = write
    this.#lost = lost
  }

  /**
   * @param reply never rejects
   * @param bytes the memory that the request occupies until its reply is known
   */
  push(reply: Promise<Buffer> | Buffer, bytes: number): void {
    this.#open++
    if (reply instanceof Promise) {
      const due: Due = { reply: undefined, bytes }
      this.#bytes += bytes
      this.#due.push(due)
      void reply.then(found => {
        due.reply = found
        this.#take()
      })
    } else if (this.#due.size > 0) this.#due.push({ reply, bytes: 0 })
    else this.#send(reply)
  }

  /** True if fewer than `requests` requests, with fewer than `bytes` bytes, wait for their replies. */
  hasRoom(requests: number, bytes: number): boolean {
    return this.#open < requests && this.#bytes < bytes
  }

  /** Resolves when there is room. */
  async room(requests: number, bytes: number): Promise<void> {
    while (!this.hasRoom(requests, bytes)) await this.#change()
  }

  /** The number of replies that are not written yet. */
  get size(): number {
    return this.#open
  }

  /** Resolves when every reply is written, or lost. */
  async done(): Promise<void> {
    while (this.#open > 0) await this.#change()
  }

  #take(): void {
    for (let first = this.#due.peek(); first?.reply !== undefined; first = this.#due.peek()) {
      this.#due.pop()
      this.#bytes -= first.bytes
      this.#send(first.reply)
    }
  }

  /** Replies that become known within one turn of the event loop are written together, in one system call. */
  #send(reply: Buffer): void {
    if (this.#found.push(reply) === 1) process.nextTick(() => this.#flush())
  }

  async #flush(): Promise<void> {
    const replies = this.#found
    this.#found = []
    const [first] = replies
    if (first !== undefined && !this.#isLost)
      await this.#write(replies.length === 1 ? first : Buffer.concat(replies)).catch(() => this.#lose())
    this.#open -= replies.length
    this.#wake()
  }

  #lose(): void {
    if (this.#isLost) return
    this.#isLost = true
    this.#lost()
  }

  /** Resolves at the next change. Only one caller, the connection, may wait. */
  #change(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }
}
