import type { Ref } from '../../../base/task/ref.js'
import { Recent } from './recent.js'

/** More than workers have. */
const REMEMBERED = 4096
/** The event of a removal comes at most so much later than the report of it. */
const LATE_MS = 1000

/** The refs that workers have or had last, and what happened to their files meanwhile. */
export class BusyRefs {
  /** How many renames were seen since: one is our own unlink, a second a new file of that name. */
  readonly #renames = new Map<Ref, number>()
  /** Those that have changed: the worker may have looked before. */
  readonly #touched = new Set<Ref>()
  /** Those that ran here last, or may have; until when the event of their removal may come, on the clock of `performance.now()`. */
  readonly #ended = new Recent<number>(REMEMBERED)

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

  /** @returns false if the event does not tell of what a worker does with it, or has done */
  changed(ref: Ref, renamed: boolean): boolean {
    const renames = this.#renames.get(ref)
    if (renames === undefined) return this.#isLate(ref, renamed)
    if (renamed) this.#renames.set(ref, renames + 1)
    else this.#touched.add(ref)
    return true
  }

  #isLate(ref: Ref, renamed: boolean): boolean {
    const until = this.#ended.get(ref) ?? 0
    if (until === 0 || performance.now() > until) return false
    if (renamed) this.#ended.set(ref, 0) // a further one is that of a new file
    return true
  }

  /** There is a new file of this name, of which no event tells. */
  stored(ref: Ref): void {
    if (this.#ended.get(ref) !== undefined) this.#ended.set(ref, 0)
  }

  isTouched(ref: Ref): boolean {
    return this.#touched.has(ref)
  }

  /** It was made, replaced or removed. */
  isRenamed(ref: Ref): boolean {
    return (this.#renames.get(ref) ?? 0) > 0
  }

  end(ref: Ref): void {
    this.#renames.delete(ref)
    this.#touched.delete(ref)
  }

  /** It may go on with the worker that had it, which was to hand it back, or has died. */
  abandoned(ref: Ref): void {
    this.end(ref)
    this.#ended.set(ref, 0)
  }

  /** Its file is gone. @param isByUs the worker has removed it @returns whether there is a new one of that name */
  gone(ref: Ref, isByUs: boolean): boolean {
    const renames = this.#renames.get(ref) ?? 0
    this.end(ref)
    if (isByUs) this.#ended.set(ref, renames === 0 ? Math.ceil(performance.now()) + LATE_MS : 0) // no object, as whole numbers are
    return renames > 1
  }

  /** One of our workers had it, ran it to its end or may have begun it. */
  isOurs(ref: Ref): boolean {
    return this.#ended.get(ref) !== undefined
  }
}
