import { setTimeout as sleep } from 'node:timers/promises'
import { withDeadline } from './clock.js'

/** A figure that is costly to take. It is taken when somebody asks, and so seldom that it costs a small share of the time. */
export class Rationed<T> {
  readonly #take: () => T
  readonly #pause: number
  #last: { readonly value: T; readonly nextAt: number } | undefined

  /** @param pause how many times as long as the last one took has to pass before the next one is taken */
  constructor(take: () => T, pause: number) {
    this.#take = take
    this.#pause = pause
  }

  /** Returns the figure as it is now, or was a moment ago. */
  get(): T {
    const now = performance.now()
    if (this.#last !== undefined && now < this.#last.nextAt) return this.#last.value
    const value = this.#take()
    const endedAt = performance.now()
    this.#last = { value, nextAt: endedAt + this.#pause * (endedAt - now) }
    return value
  }
}

/**
 * The same for a figure that is asked for in parts, one by one. It costs a small share of the processor's time: whoever asks
 * for another part waits until it may be taken.
 */
export class RationedPart<T> {
  readonly #take: (from: number) => T
  readonly #pause: number
  #last: { readonly from: number; readonly value: T; readonly nextAt: number } | undefined
  #turn: Promise<unknown> = Promise.resolve()

  /** @param take takes the part that begins at `from` @param pause as for `Rationed` */
  constructor(take: (from: number) => T, pause: number) {
    this.#take = take
    this.#pause = pause
  }

  get(from: number): Promise<T> {
    const taken = this.#turn.then(() => this.#get(from))
    this.#turn = taken.catch(() => {})
    return taken
  }

  async #get(from: number): Promise<T> {
    const restMs = (this.#last?.nextAt ?? 0) - performance.now()
    if (restMs > 0 && this.#last?.from === from) return this.#last.value
    if (restMs > 0) await sleep(restMs)
    const before = process.cpuUsage()
    const value = this.#take(from)
    const { user, system } = process.cpuUsage(before) // on a busy machine, others use the rest of the time
    this.#last = { from, value, nextAt: performance.now() + (this.#pause * (user + system)) / 1000 }
    return value
  }
}

/** An answer of somebody who may be away. While there is no new answer, the last one stands. */
export class LastKnown<T> {
  readonly #ask: () => Promise<T>
  readonly #withinMs: number
  readonly #keptMs: number
  #last: T
  /** On the clock of `performance.now()`. */
  #keptUntil = 0
  #changes = 0
  #asking: Promise<void> | undefined
  #newest: Promise<void> | undefined

  /**
   * @param first stands until there is an answer
   * @param withinMs how long each answer is waited for
   * @param keptMs how long an answer stands before the question is asked again
   */
  constructor(ask: () => Promise<T>, first: T, withinMs: number, keptMs = 0) {
    this.#ask = ask
    this.#last = first
    this.#withinMs = withinMs
    this.#keptMs = keptMs
  }

  /** Returns the last answer, after a wait for a new one if it is old. Never rejects. */
  async get(): Promise<T> {
    if (performance.now() < this.#keptUntil) return this.#last
    const changes = this.#changes
    this.#asking ??= this.#update()
    await withDeadline(this.#asking, this.#withinMs, () => {})
    if (changes === this.#changes) this.#keptUntil = performance.now() + this.#keptMs
    return this.#last
  }

  /** The answer has changed: the last one, and one that is on its way, may be old. */
  changed(): void {
    this.#changes++
    this.#keptUntil = 0
    this.#asking = undefined
  }

  async #update(): Promise<void> {
    const asking = this.#ask().then(
      answer => {
        if (this.#newest === asking) this.#last = answer
      },
      () => {},
    )
    this.#newest = asking
    await asking
    if (this.#newest === asking) this.#asking = undefined
  }
}
