import { Queue } from '../../base/queue.js'
import type { Report } from '../../base/task/report.js'
import type { NamedSlots, SlotWish } from '../../base/task/terms.js'
import type { WorkerClaims } from '../../engines/claims.js'
import type { PackedReports } from '../ipc/reports.js'
import type { Given } from './run.js'

/**
 * If tasks of a name take longer, none waits behind them here. It is less than the time after which a worker has to hand back what it
 * has not started (supervisor/worker-process).
 */
const QUICK_MS = 40

type FollowerNews = Pick<PackedReports, 'wishes' | 'following'>

/** The tasks of one name that this worker was given to follow each other. */
class OfName {
  slots: NamedSlots
  readonly followers = new Queue<Given>()
  /** How many ended since the last wish. */
  ended = 0
  /** Slots of those that ended, that nobody here has taken again. */
  open = 0
  isQuick = true

  constructor(slots: NamedSlots) {
    this.slots = slots
  }
}

/**
 * Hands the slot of a task that ends over to the next one of its name that waits here: neither a message nor a lock comes between
 * them. Each that waits either begins in the slot of another one, or finds itself that there is none.
 */
export class Followers {
  readonly #slots: WorkerClaims['slots']
  readonly #byName = new Map<string, OfName>()
  /** Those whose turn it is, and those of their names, by number, until they begin or are refused. */
  readonly #turns = new Map<number, OfName>()
  readonly #next = new Queue<Given>()
  /** How many wait for their turn. */
  #following = 0

  constructor(slots: WorkerClaims['slots']) {
    this.#slots = slots
  }

  get following(): number {
    return this.#following
  }

  /** How many are to be claimed now. */
  get ready(): number {
    return this.#next.size
  }

  /** The next one to be claimed. */
  pop(): Given | undefined {
    return this.#next.pop()
  }

  /** These are given to follow tasks of this name. Those for which there may be a slot have their turn now, and if there is none to follow, all. */
  add(name: string, tasks: readonly Given[]): void {
    const own = this.#byName.get(name) ?? new OfName({ name, count: 1 })
    this.#byName.set(name, own)
    const held = this.#heldOf(own)
    const now = held + own.open === 0 ? tasks.length : own.open
    own.open = 0
    for (const [i, given] of tasks.entries())
      if (i < now) this.#turnOf(given, own)
      else {
        own.followers.push(given)
        this.#following++
      }
  }

  /** A task that has one of these slots has ended. @returns whether another one takes it over, which is claimed next */
  ended(slots: NamedSlots, ranMs: number): boolean {
    const own = this.#byName.get(slots.name) ?? new OfName(slots)
    this.#byName.set(slots.name, own)
    own.slots = slots
    own.ended++
    own.isQuick = ranMs <= QUICK_MS
    const isFollowed = this.#advance(own)
    if (!isFollowed) own.open++
    return isFollowed
  }

  /** @param slots those of which it has one */
  began(number: number, slots: NamedSlots | undefined): void {
    if (this.#turns.size > 0 && this.#turns.delete(number)) return
    if (slots === undefined) return
    const own = this.#byName.get(slots.name)
    if (own !== undefined && own.open > 0) own.open--
  }

  /** It does not begin: its slot is for the next one, or for nobody here. @returns the report, with the slot that was given back */
  refused(number: number, report: Report): Report {
    const own = this.#turns.get(number)
    if (own === undefined) return report
    this.#turns.delete(number)
    // the worker for tasks that have to be alone needs the slot
    if (report.reason !== 'alone' && this.#advance(own)) return report
    const isFree = this.#slots?.dropKept(own.slots) === true
    if (this.#heldOf(own) === 0) while (this.#advance(own));
    return isFree ? { ...report, slots: own.slots } : report
  }

  /** None of them is to begin here. */
  drop(): Given[] {
    const dropped = [...this.#next]
    this.#next.clear()
    for (const { followers } of this.#byName.values()) {
      dropped.push(...followers)
      followers.clear()
    }
    this.#following = 0
    return dropped
  }

  /** What the master is to know, once. */
  takeNews(): FollowerNews {
    const [wishes, following] = [this.#wishes(), this.#following]
    return { ...(wishes.length > 0 && { wishes }), ...(following > 0 && { following }) }
  }

  /** How many more tasks of each name whose tasks have ended should be here. */
  #wishes(): SlotWish[] {
    const wishes: SlotWish[] = []
    for (const own of this.#byName.values()) {
      if (own.ended === 0) continue
      own.ended = 0
      const behind = own.isQuick ? this.#heldOf(own) + own.open : 0
      const wanted = own.open + behind - own.followers.size
      if (wanted > 0) wishes.push({ ...own.slots, wanted })
    }
    return wishes
  }

  #heldOf({ slots }: OfName): number {
    return this.#slots?.heldOf(slots.name) ?? 0
  }

  #advance(own: OfName): boolean {
    const next = own.followers.pop()
    if (next === undefined) return false
    this.#following--
    this.#turnOf(next, own)
    return true
  }

  #turnOf(given: Given, own: OfName): void {
    this.#turns.set(given.number, own)
    this.#next.push(given)
  }
}
