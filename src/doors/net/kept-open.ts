import { messageOf } from '../../base/errors.js'

/** How long something that somebody removed is missing, at most. */
const LOOK_MS = 5000

/** Something open that others reach by a name: an address, or a name in the file system, which they may remove. */
export interface Open {
  /** False once the name was removed, or belongs to another file. */
  isReachable(): boolean | Promise<boolean>
  close(): void | Promise<void>
}

interface KeptOpenContext {
  open(name: string): Promise<Open>
  /** Called when the thing could not be opened: once, until it can be, or until the reason changes. */
  missing(name: string, why: string): void
  /** Called when the thing was opened, and at each later look that finds it. */
  looked?(name: string): void
}

/**
 * Keeps things open: opens again what somebody removed, and what could not be opened, for instance because the disk was full or
 * another program had the address.
 */
export class KeptOpen {
  readonly #context: KeptOpenContext
  readonly #open = new Map<string, Open>()
  /** By name, the last reported reason why nothing is open there. */
  readonly #missing = new Map<string, string>()
  #wanted: ReadonlySet<string> = new Set()
  #isLooking = false
  /** Openings take turns, because a reload may come while something is being opened again. */
  #turn = Promise.resolve()
  readonly #watch = setInterval(() => void this.#look(), LOOK_MS).unref()

  constructor(context: KeptOpenContext) {
    this.#context = context
  }

  /** Opens each of these names, also if somebody removed it, and closes all others. */
  serve(names: readonly string[]): Promise<void> {
    this.#wanted = new Set(names)
    this.#missing.clear() // a reload reports again what is wrong
    return this.#openAll()
  }

  async close(): Promise<void> {
    clearInterval(this.#watch)
    this.#wanted = new Set()
    await this.#openAll()
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return // the last look is held up by a stalled disk
    this.#isLooking = true
    const wanted = [...this.#wanted]
    const areThere = await Promise.all(wanted.map(name => this.#open.get(name)?.isReachable() ?? false))
    this.#isLooking = false
    for (const [i, name] of wanted.entries())
      if (areThere[i] === true && this.#wanted.has(name)) this.#context.looked?.(name)
    if (areThere.includes(false)) await this.#openAll()
  }

  #openAll(): Promise<void> {
    this.#turn = this.#turn.then(async () => {
      for (const [name, open] of this.#open)
        if (!this.#wanted.has(name) || !(await open.isReachable())) {
          this.#open.delete(name)
          await open.close()
        }
      for (const name of this.#wanted) if (!this.#open.has(name)) await this.#openOne(name)
    })
    return this.#turn
  }

  async #openOne(name: string): Promise<void> {
    try {
      this.#open.set(name, await this.#context.open(name))
      this.#missing.delete(name)
      this.#context.looked?.(name)
    } catch (error) {
      const why = messageOf(error)
      if (this.#missing.get(name) === why) return
      this.#missing.set(name, why)
      this.#context.missing(name, why)
    }
  }
}
