import type { ParkedGroup, ParkReason } from '../../../base/task/parked.js'
import type { Ref } from '../../../base/task/ref.js'
import { HashMap, hash } from './ref-hash.js'

/** The maximum number of names kept per reason; further refs are kept as hashes only. */
const NAMED = 1000
/** The default limit of parked refs, which then take 50 MB. */
const MAX_PARKED = 1_000_000

/** The refs that are due but may not run now, kept as a hash each. They cost no time until an event ends their reason. */
export class ParkedRefs {
  readonly #byReason = new Map<ParkReason, ParkedForReason>()
  readonly #limit: number
  #size = 0

  /** @param limit the maximum number of refs, for all reasons together */
  constructor(limit = MAX_PARKED) {
    this.#limit = limit
  }

  get size(): number {
    return this.#size
  }

  countOf(reason: ParkReason): number {
    return this.#byReason.get(reason)?.size ?? 0
  }

  /** Yields, for each reason and label, a group with at most `limit` of the refs whose names are known. */
  *groups(limit: number): Generator<ParkedGroup> {
    for (const [reason, parked] of this.#byReason) yield* parked.groups(reason, limit)
  }

  /** @param label the name of the task, for a reason that has names @returns false if there is no room */
  add(ref: Ref, reason: ParkReason, label?: string): boolean {
    if (this.#size >= this.#limit) return false
    const parked = this.#byReason.get(reason) ?? new ParkedForReason()
    this.#byReason.set(reason, parked)
    if (parked.add(ref, label)) this.#size++
    return true
  }

  /** True if the ref is parked. @param reason if undefined, whatever the reason */
  has(ref: Ref, reason?: ParkReason): boolean {
    if (this.#size === 0) return false
    const key = hash(ref)
    if (reason !== undefined) return this.#byReason.get(reason)?.has(key) === true
    for (const parked of this.#byReason.values()) if (parked.has(key)) return true
    return false
  }

  remove(ref: Ref): void {
    if (this.#size === 0) return
    const key = hash(ref)
    for (const parked of this.#byReason.values()) if (parked.delete(key)) this.#size--
  }

  /** Removes and returns at most `limit` refs whose names are known, in the order in which they were parked. */
  take(reason: ParkReason, limit: number): Ref[] {
    const refs: Ref[] = []
    const parked = this.#byReason.get(reason)
    while (refs.length < limit) {
      const ref = parked?.takeNamed()
      if (ref === undefined) break
      this.#size--
      refs.push(ref)
    }
    return refs
  }

  /** Forgets all refs that are parked for this reason. */
  clearReason(reason: ParkReason): void {
    this.#size -= this.countOf(reason)
    this.#byReason.delete(reason)
  }

  /**
   * Forgets the refs that may run after all if their files have changed: a worker looks at them, and parks them again. Keeps
   * refs that a person has paused: there may be a million of them, and none runs before that person says so. Keeps crashed refs
   * whose names are known: a worker looks at them when it is their turn, and a ref that is parked anew waits for its turn anew.
   */
  clearDoubtful(): void {
    for (const [reason, parked] of [...this.#byReason])
      if (reason === 'crashed') this.#size -= parked.forgetUnnamed()
      else if (reason !== 'paused') this.clearReason(reason)
  }
}

/**
 * The maximum number of labels per reason, because strangers choose the names. Refs with further labels are counted without
 * one.
 */
const MOST_LABELS = 1000

interface Label {
  readonly text: string
  /** The number of refs with this label. */
  count: number
}

class ParkedForReason {
  /** The label of each parked ref, by the ref's hash; most refs have none. */
  readonly #parked = new HashMap<Label | undefined>()
  readonly #labels = new Map<string, Label>()
  /** Some of the names, by the refs' hashes, in the order in which the refs were parked. */
  readonly #names = new Map<number, Ref>()

  get size(): number {
    return this.#parked.size
  }

  *groups(reason: ParkReason, limit: number): Generator<ParkedGroup> {
    const refs = new Map<string | undefined, Ref[]>()
    for (const [key, ref] of this.#names) {
      const label = this.#parked.get(key)?.text
      const its = refs.get(label) ?? []
      refs.set(label, its)
      if (its.length < limit) its.push(ref)
    }
    let rest = this.size
    for (const { text, count } of this.#labels.values()) {
      rest -= count
      yield { reason, name: text, count, tasks: refs.get(text) ?? [] }
    }
    if (rest > 0) yield { reason, count: rest, tasks: refs.get(undefined) ?? [] }
  }

  /** @returns false if the ref was there already */
  add(ref: Ref, text: string | undefined): boolean {
    const key = hash(ref)
    const isNew = !this.delete(key)
    if (this.#names.size < NAMED) this.#names.set(key, ref)
    this.#parked.set(key, text === undefined ? undefined : this.#labelOf(text))
    return isNew
  }

  /** Returns the label for one more ref; undefined if there is no room for another label. */
  #labelOf(text: string): Label | undefined {
    const label = this.#labels.get(text) ?? { text, count: 0 }
    if (label.count === 0 && this.#labels.size >= MOST_LABELS) return undefined
    label.count++
    this.#labels.set(text, label)
    return label
  }

  has(key: number): boolean {
    return this.#parked.has(key)
  }

  delete(key: number): boolean {
    const label = this.#parked.get(key)
    if (label !== undefined && --label.count === 0) this.#labels.delete(label.text)
    this.#names.delete(key)
    return this.#parked.delete(key)
  }

  takeNamed(): Ref | undefined {
    for (const [key, ref] of this.#names) {
      this.delete(key)
      return ref
    }
    return undefined
  }

  /** Forgets the refs whose names are not known: a scan finds them. @returns their number */
  forgetUnnamed(): number {
    const unnamed = this.size - this.#names.size
    if (unnamed > 0) for (const key of this.#parked.keys(key => !this.#names.has(key))) this.delete(key)
    return unnamed
  }
}
