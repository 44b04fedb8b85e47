import type { KillReason } from './cut-short.js'
import type { Exit } from './worker-listener.js'

/** Why a worker ends, as far as is known before it has: what it said itself, and what was done to it. */
export class Departure {
  #why: Exit['why'] = 'failed'
  #isExplained = false
  #isKilled = false
  #killed: KillReason | undefined

  get isKilled(): boolean {
    return this.#isKilled
  }

  /** Why it was killed; undefined if it was not, or if no reason was given. */
  get killed(): KillReason | undefined {
    return this.#killed
  }

  get exit(): Pick<Exit, 'why' | 'isExplained'> {
    return { why: this.#why, isExplained: this.#isExplained }
  }

  /** It was asked to end. */
  asked(): void {
    this.#why = 'asked'
  }

  /** It ends of its own accord. Only the first reason counts. */
  explained(why: Exit['why']): void {
    if (this.#isExplained || this.#why === 'asked') return
    this.#why = why
    this.#isExplained = true
  }

  /** Only the first reason counts. */
  kill(reason: KillReason | undefined): void {
    this.#killed ??= reason
    this.#isKilled = true
  }
}
