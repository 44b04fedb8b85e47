import type { Connection } from './connection.js'

/** The most keys that one command removes, and the pause between commands in ms, unless there are so many keys. */
const TOGETHER = 256
const PAUSE_MS = 10

/** Instances that have keys, or wait for an answer. */
const active = new Set<Forgetting>()

/** Resolves when this process has forgotten what it is to forget. Call it before `process.exit`. */
export async function allForgotten(): Promise<void> {
  await Promise.all([...active].map(each => each.finish()))
}

/** Removes keys that nobody asks for any more, without a command for each. */
export class Forgetting {
  readonly #connection: Connection
  #keys: string[] = []
  /** When the last command was sent, on the clock of `performance.now()`. */
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
      .catch(() => {}) // the keys expire by themselves
      .then(() => void (this.#keys.length === 0 && active.delete(this)))
  }
}
