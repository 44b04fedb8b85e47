import type { Connection } from './connection.js'

/** At most so many are forgotten by one command, which is sent at most so often unless there are so many. */
const TOGETHER = 256
const PAUSE_MS = 10

/** Those that have keys, or wait for the answer. */
const active = new Set<Forgetting>()

/** Resolves when what this process has stored is forgotten as far as it is to be. Call it before `process.exit`. */
export async function allForgotten(): Promise<void> {
  await Promise.all([...active].map(each => each.finish()))
}

/** Removes keys that nobody asks for any more, without a command for each. */
export class Forgetting {
  readonly #connection: Connection
  #keys: string[] = []
  /** On the clock of `performance.now()`. */
  #sentAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #sent: Promise<unknown> = Promise.resolve()

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** @param type of the key, behind the prefix of the spool's queue */
  add(type: string): void {
    this.#keys.push(this.#connection.key(type))
    active.add(this)
    if (this.#keys.length >= TOGETHER) return this.#send()
    if (this.#timer !== undefined) return
    // the first one goes at once: most processes that store tasks store one, and end
    if (performance.now() - this.#sentAt > PAUSE_MS) return this.#send()
    this.#timer = setTimeout(() => this.#send(), PAUSE_MS)
  }

  finish(): Promise<unknown> {
    if (this.#keys.length > 0) this.#send()
    return this.#sent
  }

  #send(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#sentAt = performance.now()
    const keys = this.#keys
    this.#keys = []
    this.#sent = this.#connection
      .use(() => this.#connection.redis.unlink(keys))
      .catch(() => {}) // they go with time
      .then(() => void (this.#keys.length === 0 && active.delete(this)))
  }
}
