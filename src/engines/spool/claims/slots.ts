import type { Ref } from '../../../base/task/ref.js'
import type { NamedSlots, SlotNews } from '../../../base/task/terms.js'
import type { LockKind } from '../locker.js'
import { type HeldSlot, slotTaker, type TakeSlot } from '../slot-files.js'

/** Further ones are forgotten, and wait again. */
const MOST_TRIES = 10_000

/** The slots of one name, as far as this worker has to do with them. */
class OwnSlots {
  /** Their numbers. */
  readonly held = new Set<number>()
  /** Of tasks that have ended, for those that follow them here. */
  readonly kept: HeldSlot[] = []
  /** Those that it gave back last: most likely they are free. */
  readonly freed: number[] = []
  /** Where it begins to look otherwise: elsewhere than other workers, which would find each other's taken. */
  readonly start: number

  constructor(count: number) {
    this.start = Math.floor(Math.random() * count)
  }
}

/** A worker's way to slots: it does not try again what it has just found to be taken. */
export class Slots {
  readonly #spool: string
  readonly #kind: LockKind
  #take: TakeSlot | undefined
  readonly #byName = new Map<string, OwnSlots>()
  /** Names of which it has found no slot since the last `refresh`. */
  readonly #taken = new Set<string>()
  /** Names of which tasks wait: others take no slot of theirs, but those that are to try. */
  #queued: ReadonlySet<string> = new Set()
  readonly #tries = new Set<Ref>()

  /** @param spool its real path, a byte string */
  constructor(spool: string, kind: LockKind) {
    this.#spool = spool
    this.#kind = kind
  }

  /** @param isFirst it waits behind no others */
  mayTake(ref: Ref, { name }: NamedSlots, isFirst: boolean): boolean {
    const isTry = isFirst || !this.#queued.has(name) || this.#tries.has(ref)
    return isTry && (!this.#taken.has(name) || this.#keeps(name))
  }

  #keeps(name: string): boolean {
    return (this.#byName.get(name)?.kept.length ?? 0) > 0
  }

  /** @returns undefined if there is none @throws if it is unknown whether there is one */
  take(ref: Ref, slots: NamedSlots, isFirst: boolean): HeldSlot | undefined {
    const mayTake = this.mayTake(ref, slots, isFirst)
    this.#tries.delete(ref)
    if (!mayTake) return undefined
    const own = this.#ownOf(slots)
    const kept = own.kept.pop()
    if (kept !== undefined) return kept
    this.#take ??= slotTaker(this.#kind)
    const slot = this.#take(this.#spool, slots, own.freed.pop() ?? own.start, own.held)
    if (slot === undefined) this.#taken.add(slots.name)
    else own.held.add(slot.number)
    return slot
  }

  #ownOf({ name, count }: NamedSlots): OwnSlots {
    const own = this.#byName.get(name) ?? new OwnSlots(count)
    this.#byName.set(name, own)
    return own
  }

  heldOf(name: string): number {
    return this.#byName.get(name)?.held.size ?? 0
  }

  /** Its task has ended, and the next of its name begins here at once. */
  keep(slots: NamedSlots, slot: HeldSlot): void {
    this.#ownOf(slots).kept.push(slot)
  }

  /** None follows that could take it. @returns whether there was one */
  dropKept(slots: NamedSlots): boolean {
    const slot = this.#ownOf(slots).kept.pop()
    if (slot !== undefined) this.giveBack(slots, slot)
    return slot !== undefined
  }

  /** Never throws: a lease that cannot be given back ends by itself. */
  giveBack(slots: NamedSlots, slot: HeldSlot): void {
    const { held, freed } = this.#ownOf(slots)
    try {
      slot.release()
    } catch {}
    held.delete(slot.number)
    freed.push(slot.number)
    if (freed.length > slots.count) freed.shift()
    this.#taken.delete(slots.name)
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
