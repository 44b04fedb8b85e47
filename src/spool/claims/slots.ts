import type { NamedSlots } from '../../task/slots.js'
import type { LockKind } from '../locker.js'
import { type HeldSlot, openSlotFiles, type SlotFiles } from '../slot-files.js'

/** A worker's way to slots: it does not try again what it has just found to be taken. */
export class Slots {
  readonly #spool: string
  readonly #kind: LockKind
  #files: SlotFiles | undefined
  /** Names of which it has found no slot since the last `refresh`. */
  readonly #taken = new Set<string>()
  /** By name, the slot that it had last: most likely it is free. */
  readonly #last = new Map<string, number>()

  /** @param spool its real path, a byte string */
  constructor(spool: string, kind: LockKind) {
    this.#spool = spool
    this.#kind = kind
  }

  /** @returns undefined if there is none @throws if it is unknown whether there is one */
  take(slots: NamedSlots): HeldSlot | undefined {
    if (this.#taken.has(slots.name)) return undefined
    this.#files ??= openSlotFiles(this.#kind)
    const slot = this.#files.take(this.#spool, slots, this.#last.get(slots.name) ?? 0)
    if (slot === undefined) this.#taken.add(slots.name)
    else this.#last.set(slots.name, slot.number)
    return slot
  }

  /** Never throws: a lease that cannot be given back ends by itself. */
  giveBack({ name }: NamedSlots, slot: HeldSlot): void {
    try {
      slot.release()
    } catch {}
    this.#last.set(name, slot.number)
    this.#taken.delete(name)
  }

  /** Others may have given some back. */
  refresh(): void {
    if (this.#taken.size > 0) this.#taken.clear()
  }
}
