import { setTimeout as sleep } from 'node:timers/promises'

/** What somebody else knows, who may be away: while there is no answer, what was said last. */
export class LastKnown<T> {
  readonly #ask: () => Promise<T>
  readonly #patienceMs: number
  #last: T
  #asking: Promise<void> | undefined
  #newest: Promise<void> | undefined

  /** @param first until there is an answer @param patienceMs how long each answer is waited for */
  constructor(ask: () => Promise<T>, first: T, patienceMs: number) {
    this.#ask = ask
    this.#last = first
    this.#patienceMs = patienceMs
  }

  /** Never rejects. */
  async get(): Promise<T> {
    this.#asking ??= this.#update()
    const over = new AbortController()
    const late = sleep(this.#patienceMs, undefined, { signal: over.signal, ref: false }).catch(() => {})
    await Promise.race([this.#asking, late])
    over.abort()
    return this.#last
  }

  /** It has changed: an answer that is on its way may be old. */
  changed(): void {
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
