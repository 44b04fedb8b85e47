import type { Ref } from '../../task/ref.js'

/** So many are remembered twice over: more than can end in one turn of the event loop. */
const REMEMBERED = 4096

/** The refs that were the last to go. Events that are late tell of them again. */
export class JustGone {
  #refs = new Set<Ref>()
  #earlier = new Set<Ref>()

  add(ref: Ref): void {
    if (this.#refs.size >= REMEMBERED) {
      this.#earlier = this.#refs
      this.#refs = new Set()
    }
    this.#refs.add(ref)
  }

  has(ref: Ref): boolean {
    return this.#refs.has(ref) || this.#earlier.has(ref)
  }
}
