import type { Ref } from '../../../base/task/ref.js'
import type { NamedSlots, SlotNews } from '../../../base/task/terms.js'
import type { LockKind } from '../locker.js'
import { type HeldSlot, slotTaker, type TakeSlot } from '../slot-files.js'

/** Beyond this number, the tries are forgotten, and their refs wait again. */
const MOST_TRIES = 10_000

/** The slots of one name, as far as this worker uses them. */
class OwnSlots {
  /** The numbers of the slots that this worker has, the kept ones, too. */
  readonly held = new Set<number>()
  /** The slots of tasks that have ended, for the tasks that follow them here. */
  readonly kept: HeldSlot[] = []
  /** The slots that this worker gave back last, which are most likely free. */
  readonly freed: number[] = []
  /**
   * The slot at which a search begins otherwise: at random, because workers that begin at the same slot find each other's slots
   * taken.
   */
  readonly start: number

  constructor(count: number) {
    this.start = Math.floor(Math.random() * count)
  }
}

/** A worker's access to slots. A worker does not try again for slots that it has just found taken. */
export class Slots {
  readonly #spool: string
  readonly #kind: LockKind
  #take: TakeSlot | undefined
  readonly #byName = new Map<string, OwnSlots>()
  /** The names whose slots were all found taken since the last `refresh`. */
  readonly #taken = new Set<string>()
  /**
   * The names for whose slots refs wait. Only refs that are to try, or that wait behind no others, take a slot of such a name.
   */
  #queued: ReadonlySet<string> = new Set()
  /** The refs that may take a slot though others wait. */
  readonly #tries = new Set<Ref>()

  /** @param spool its real path, a byte string */
  constructor(spool: string, kind: LockKind) {
    this.#spool = spool
    this.#kind = kind
  }

  /** Returns true if the task may try to take a slot. @param isFirst true if it waits behind no others */
  mayTake(ref: Ref, { name }: NamedSlots, isFirst: boolean): boolean {
    const isTry = isFirst || !this.#queued.has(name) || this.#tries.has(ref)
    return isTry && (!this.#taken.has(name) || this.#keeps(name))
  }

  #keeps(name: string): boolean {
    return (this.#byName.get(name)?.kept.length ?? 0) > 0
  }

  /** @returns undefined if no slot is free @throws if it is unknown whether one is free */
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

  /** Keeps the slot of a task that has ended, because the next task of its name begins here at once. */
  keep(slots: NamedSlots, slot: HeldSlot): void {
    this.#ownOf(slots).kept.push(slot)
  }

  /** Gives back a kept slot, because no task follows that could take it. @returns true if there was one */
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

  /** Takes in the master's news, and tries all names again, because others may have given slots back. */
  refresh(news: SlotNews | undefined): void {
    if (this.#taken.size > 0) this.#taken.clear()
    if (news === undefined) return
    if (news.queued !== undefined) this.#queued = new Set(news.queued)
    if (this.#tries.size > MOST_TRIES) this.#tries.clear() // refs that were withdrawn before they began
    for (const ref of news.tries) this.#tries.add(ref)
  }
}
