import { prefixOf, type Ref } from '../../../base/task/ref.js'
import type { Placed } from './window.js'

/** Those that are ready, in order. */
interface Source {
  peek(): Placed | undefined
  next(): Ref | undefined
}

/**
 * Where other daemons run tasks of the directory, too: the refs that come next, in another order than theirs. In the same one, all daemons
 * would try each task at once, and all but one in vain.
 */
export class Ahead {
  /** When each became runnable; in the order in which they are taken. */
  readonly #times = new Map<Ref, number>()
  #last: Placed | undefined

  get size(): number {
    return this.#times.size
  }

  has(ref: Ref): boolean {
    return this.#times.size > 0 && this.#times.has(ref)
  }

  /** The last in order of those that were there together. It may have been taken. */
  get last(): Placed | undefined {
    return this.#times.size === 0 ? undefined : this.#last
  }

  /** Takes at most so many over, all of one priority. */
  fill(source: Source, count: number): void {
    const found: Placed[] = []
    for (let next = source.peek(); next !== undefined && found.length < count; next = source.peek()) {
      if (found.length > 0 && prefixOf(next.ref) !== prefixOf(found[0]?.ref ?? '')) break
      found.push(next)
      source.next()
    }
    this.#last = found.at(-1)
    for (const { ref, time } of shuffled(found)) this.#times.set(ref, time)
  }

  /** The one that `next` removes. */
  peek(): Placed | undefined {
    for (const [ref, time] of this.#times) return { ref, time }
    return undefined
  }

  next(): Ref | undefined {
    const ref = this.peek()?.ref
    if (ref !== undefined) this.#times.delete(ref)
    return ref
  }

  /** All others go first. @returns false if it is not one of them */
  postpone(ref: Ref): boolean {
    const time = this.#times.size === 0 ? undefined : this.#times.get(ref)
    if (time === undefined) return false
    this.#times.delete(ref)
    this.#times.set(ref, time)
    return true
  }

  /** @returns false if it is not one of them */
  delete(ref: Ref): boolean {
    return this.#times.size > 0 && this.#times.delete(ref)
  }

  each(visit: (ref: Ref, time: number) => void): void {
    for (const [ref, time] of this.#times) visit(ref, time)
  }

  clear(): void {
    this.#times.clear()
  }
}

function shuffled<T>(all: T[]): T[] {
  for (let last = all.length - 1; last > 0; last--) {
    const other = Math.floor(Math.random() * (last + 1))
    const moved = all[last] as T
    all[last] = all[other] as T
    all[other] = moved
  }
  return all
}
