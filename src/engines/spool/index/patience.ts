import type { Ref } from '../../../base/task/ref.js'
import type { Report } from '../../../base/task/report.js'

/** Retried after a wait that doubles. */
export const PATIENT_KINDS: readonly Report['kind'][] = ['locked', 'incomplete']

const FIRST_RETRY_MS = 2

/** How long to wait for a ref that was found locked or incomplete, by how many times in a row it was. */
export class Patience {
  readonly #tries = new Map<Ref, number>()

  has(ref: Ref): boolean {
    return this.#tries.has(ref)
  }

  /** 2 ms, 4 ms, … up to `capMs`: a writer finishes in a moment, a foreign runner may take long. */
  of(ref: Ref, capMs: number): number {
    const tries = this.#tries.get(ref) ?? 0
    this.#tries.set(ref, tries + 1)
    return Math.min(FIRST_RETRY_MS * 2 ** tries, capMs)
  }

  /** It was found in another state. */
  end(ref: Ref): void {
    this.#tries.delete(ref)
  }
}
