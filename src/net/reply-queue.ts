import { Queue } from '../base/queue.js'

/** A reply that is not written yet; undefined as long as it is not found. */
interface Due {
  reply: Buffer | undefined
  readonly bytes: number
}

/** The replies of one connection, in the order of its requests, however long each takes to be found. */
export class ReplyQueue {
  readonly #write: (replies: Buffer) => Promise<void>
  readonly #lost: () => void
  readonly #due = new Queue<Due>()
  /** Found, and next to be written. */
  #found: Buffer[] = []
  #open = 0
  #bytes = 0
  /** Nobody reads them any more. What has come is still done. */
  #isLost = false
  #wake = () => {}

  /**
   * @param write resolves when the kernel has the bytes; may reject: then nobody is there to be answered
   * @param lost is called then
   */
  constructor(write: (replies: Buffer) => Promise<void>, lost: () => void) {
    this.#write = write
    this.#lost = lost
  }

  /**
   * @param reply never rejects
   * @param bytes what the request holds in memory until its reply is found
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

  /** Whether fewer than `requests` requests, with fewer than `bytes` bytes, wait for their replies. */
  hasRoom(requests: number, bytes: number): boolean {
    return this.#open < requests && this.#bytes < bytes
  }

  /** Resolves when they do. */
  async room(requests: number, bytes: number): Promise<void> {
    while (!this.hasRoom(requests, bytes)) await this.#change()
  }

  /** How many are not written yet. */
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

  /** What is found within one turn of the loop goes together: a system call for many, not for each. */
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

  /** There is one who waits: the connection. */
  #change(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }
}
