import type { Ref } from '../../task/ref.js'
import type { NamedSlots, SlotNews } from '../../task/slots.js'
import type { LockKind } from '../locker.js'
import { type HeldSlot, openSlotFiles, type SlotFiles } from '../slot-files.js'

/** Further ones are forgotten, and wait again. */
const MOST_TRIES = 10_000

/** A worker's way to slots: it does not try again what it has just found to be taken. */
export class Slots {
  readonly #spool: string
  readonly #kind: LockKind
  #files: SlotFiles | undefined
  /** Names of which it has found no slot since the last `refresh`. */
  readonly #taken = new Set<string>()
  /** Names of which tasks wait: others take no slot of theirs, but those that are to try. */
  #queued: ReadonlySet<string> = new Set()
  readonly #tries = new Set<Ref>()
  /** By name, the slot that it had last: most likely it is free. */
  readonly #last = new Map<string, number>()

  /** @param spool its real path, a byte string */
  constructor(spool: string, kind: LockKind) {
    this.#spool = spool
    this.#kind = kind
  }

  /** @param isFirst it waits behind no others @returns undefined if there is none @throws if it is unknown whether there is one */
  take(ref: Ref, slots: NamedSlots, isFirst: boolean): HeldSlot | undefined {
    const isTry = this.#tries.delete(ref) || isFirst
    if (this.#taken.has(slots.name) || (!isTry && this.#queued.has(slots.name))) return undefined
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
  refresh(news: SlotNews | undefined): void {
    if (this.#taken.size > 0) this.#taken.clear()
    if (news === undefined) return
    if (news.queued !== undefined) this.#queued = new Set(news.queued)
    if (this.#tries.size > MOST_TRIES) this.#tries.clear() // those that were recalled before they began
    for (const ref of news.tries) this.#tries.add(ref)
  }
}
