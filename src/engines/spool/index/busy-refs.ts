import type { Ref } from '../../../base/task/ref.js'

/** The refs that workers have, and what happened to their files meanwhile. */
export class BusyRefs {
  /** How many renames were seen since: one is our own unlink, a second a new file of that name. */
  readonly #renames = new Map<Ref, number>()
  /** Those that have changed: the worker may have looked before. */
  readonly #touched = new Set<Ref>()

  get size(): number {
    return this.#renames.size
  }

  /** In the order in which they were taken. */
  get refs(): Iterable<Ref> {
    return this.#renames.keys()
  }

  has(ref: Ref): boolean {
    return this.#renames.size > 0 && this.#renames.has(ref) // an empty map computes the hash of each name, too
  }

  add(ref: Ref): void {
    this.#renames.set(ref, 0)
  }

  /** @returns false if no worker has it */
  changed(ref: Ref, renamed: boolean): boolean {
    const renames = this.#renames.get(ref)
    if (renames === undefined) return false
    if (renamed) this.#renames.set(ref, renames + 1)
    else this.#touched.add(ref)
    return true
  }

  /** Its file is gone, and there is a new one. */
  isRenewed(ref: Ref): boolean {
    return (this.#renames.get(ref) ?? 0) > 1
  }

  isTouched(ref: Ref): boolean {
    return this.#touched.has(ref)
  }

  end(ref: Ref): void {
    this.#renames.delete(ref)
    this.#touched.delete(ref)
  }
}
