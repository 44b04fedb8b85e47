import type { NamedSlots } from '../../base/task/terms.js'

/** The slots of named tasks of a spool in memory. A slot whose lease has expired is free. */
export class MemorySlots {
  /** Per name, the leases of the claims that have a slot. */
  readonly #holders = new Map<string, Set<string>>()
  readonly #watchers = new Set<(name: string) => void>()
  readonly #isCurrent: (lease: string) => boolean

  /** @param isCurrent true if a lease has neither ended nor expired */
  constructor(isCurrent: (lease: string) => boolean) {
    this.#isCurrent = isCurrent
  }

  /** Takes a slot. @returns false if all are taken */
  take(lease: string, slots: NamedSlots): boolean {
    if (this.free(slots) === 0) return false
    const holders = this.#holders.get(slots.name) ?? new Set()
    this.#holders.set(slots.name, holders.add(lease))
    return true
  }

  free({ name, count }: NamedSlots): number {
    const holders = this.#holders.get(name) ?? new Set()
    for (const lease of holders) if (!this.#isCurrent(lease)) holders.delete(lease)
    return Math.max(0, count - holders.size)
  }

  /** Gives back the slot of a claim that has ended. */
  giveBack(lease: string): void {
    for (const [name, holders] of this.#holders)
      if (holders.delete(lease)) for (const tell of this.#watchers) tell(name)
  }

  /** @param tell called with the name when one of its slots is given back @returns a function that ends this */
  watch(tell: (name: string) => void): () => void {
    this.#watchers.add(tell)
    return () => this.#watchers.delete(tell)
  }
}
