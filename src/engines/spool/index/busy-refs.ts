import type { Ref } from '../../../base/task/ref.js'
import { Recent } from './recent.js'

/** The minimum number of ended refs that are remembered: more than all workers have. */
const REMEMBERED = 4096
/** The event of a removal arrives at most this long after the worker's report of it. */
const LATE_MS = 1000

/** The refs that workers have or had recently, and what happened to their files meanwhile. */
export class BusyRefs {
  /**
   * The number of renames of each file since a worker took the ref: the first is our own unlink, the second a new file of that
   * name.
   */
  readonly #renames = new Map<Ref, number>()
  /** The refs whose files have been written to since a worker took them: the worker may have looked before that. */
  readonly #touched = new Set<Ref>()
  /**
   * The refs that recently ran here, or may have. The value is until when the event of the file's removal may arrive, on the
   * clock of `performance.now()`; 0 if no event is expected.
   */
  readonly #ended = new Recent<number>(REMEMBERED)

  get size(): number {
    return this.#renames.size
  }

  /** The refs in the order in which they were taken. */
  get refs(): Iterable<Ref> {
    return this.#renames.keys()
  }

  has(ref: Ref): boolean {
    return this.#renames.size > 0 && this.#renames.has(ref) // even an empty map computes the hash of the name
  }

  add(ref: Ref): void {
    this.#renames.set(ref, 0)
  }

  /** Takes in an event on the file of a ref. @returns true if the event tells of what a worker does with the ref, or has done */
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
    if (renamed) this.#ended.set(ref, 0) // a further rename is that of a new file
    return true
  }

  /** Takes note of a new file of this name, of which no event tells. */
  stored(ref: Ref): void {
    if (this.#ended.get(ref) !== undefined) this.#ended.set(ref, 0)
  }

  isTouched(ref: Ref): boolean {
    return this.#touched.has(ref)
  }

  /** True if the file was made, replaced or removed since a worker took the ref. */
  isRenamed(ref: Ref): boolean {
    return (this.#renames.get(ref) ?? 0) > 0
  }

  end(ref: Ref): void {
    this.#renames.delete(ref)
    this.#touched.delete(ref)
  }

  /** Ends a ref without a report: its worker has died, or the ref was withdrawn from it. */
  abandoned(ref: Ref): void {
    this.end(ref)
    this.#ended.set(ref, 0)
  }

  /**
   * Ends a ref whose file is gone.
   *
   * @param isByUs true if the worker has removed the file
   * @param now on the clock of `performance.now()`
   * @returns true if there is a new file of that name
   */
  gone(ref: Ref, isByUs: boolean, now: number): boolean {
    const renames = this.#renames.get(ref) ?? 0
    this.end(ref)
    // V8 stores a whole number without making an object
    if (isByUs) this.#ended.set(ref, renames === 0 ? Math.ceil(now) + LATE_MS : 0)
    return renames > 1
  }

  /** True if one of our workers ran the ref to its end recently, or may have begun it. */
  isOurs(ref: Ref): boolean {
    return this.#ended.get(ref) !== undefined
  }
}
