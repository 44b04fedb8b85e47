import { Queue } from '../../base/queue.js'
import type { Report } from '../../base/task/report.js'
import type { NamedSlots, SlotWish } from '../../base/task/terms.js'
import type { WorkerClaims } from '../../engines/claims.js'
import type { PackedReports } from '../ipc/reports.js'
import type { Given } from './run.js'

/**
 * If tasks of a name take longer than this, in ms, no task waits behind them here. It is less than the time after which a worker
 * has to hand back what it has not started (supervisor/worker-process).
 */
const QUICK_MS = 40

type FollowerNews = Pick<PackedReports, 'wishes' | 'following'>

/** The tasks of one name that this worker was given so that they follow each other. */
class OfName {
  slots: NamedSlots
  readonly followers = new Queue<Given>()
  /** How many tasks ended since the last wish. */
  ended = 0
  /** How many slots of ended tasks no task here has taken again. */
  open = 0
  isQuick = true

  constructor(slots: NamedSlots) {
    this.slots = slots
  }
}

/**
 * Hands the slot of a task that ends over to the next task of its name that waits here, without a message or a lock in between.
 * Each waiting task either begins in the slot of another one, or finds out itself that there is no slot.
 */
export class Followers {
  readonly #slots: WorkerClaims['slots']
  readonly #byName = new Map<string, OfName>()
  /** The name of each task whose turn it is, by the number of the task, until the task begins or is refused. */
  readonly #turns = new Map<number, OfName>()
  readonly #next = new Queue<Given>()
  /** How many tasks wait for their turn. */
  #following = 0

  constructor(slots: WorkerClaims['slots']) {
    this.#slots = slots
  }

  get following(): number {
    return this.#following
  }

  /** How many tasks are to be claimed now. */
  get ready(): number {
    return this.#next.size
  }

  /** Takes the next task to be claimed. */
  pop(): Given | undefined {
    return this.#next.pop()
  }

  /**
   * Adds tasks that follow those of this name. As many as there are open slots have their turn now. If there is no task to
   * follow, all of them do.
   */
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

  /**
   * Call it when a task that has one of these slots has ended.
   *
   * @returns true if another task, which is claimed next, takes the slot over
   */
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

  /** Call it when a task has begun. @param slots the slots of which the task has one */
  began(number: number, slots: NamedSlots | undefined): void {
    if (this.#turns.size > 0 && this.#turns.delete(number)) return
    if (slots === undefined) return
    const own = this.#byName.get(slots.name)
    if (own !== undefined && own.open > 0) own.open--
  }

  /**
   * Call it when a task does not begin. Its slot is for the next task here, if there is one, or is given back.
   *
   * @returns the report, with the slot if it was given back
   */
  refused(number: number, report: Report): Report {
    const own = this.#turns.get(number)
    if (own === undefined) return report
    this.#turns.delete(number)
    // a task that must be alone leaves its slot to the worker that runs such tasks
    if (report.reason !== 'alone' && this.#advance(own)) return report
    const isFree = this.#slots?.dropKept(own.slots) === true
    if (this.#heldOf(own) === 0) while (this.#advance(own));
    return isFree ? { ...report, slots: own.slots } : report
  }

  /** Removes and returns all tasks, because none of them is to begin here. */
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

  /** Returns what the master is to know. Each wish is returned once. */
  takeNews(): FollowerNews {
    const [wishes, following] = [this.#wishes(), this.#following]
    return { ...(wishes.length > 0 && { wishes }), ...(following > 0 && { following }) }
  }

  /** Returns how many more tasks should be here, for each name whose tasks have ended. */
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
