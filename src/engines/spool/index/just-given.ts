import type { Ref } from '../../../base/task/ref.js'

/** So many are remembered twice over: more than workers have. */
const REMEMBERED = 4096

/** The refs that workers were given last. What is gone of them may have run here, though nobody has reported it yet. */
export class JustGiven {
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
