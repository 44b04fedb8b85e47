import { Queue } from '../../base/queue.js'
import type { Report } from '../../base/task/report.js'
import type { NamedSlots, SlotWish } from '../../base/task/slots.js'
import type { Claims } from '../../engines/claims.js'
import type { PackedReports } from '../ipc/reports.js'
import type { Given } from './run.js'

/**
 * If tasks of a name take longer, none waits behind them here. It is less than the time after which a worker has to hand back what it
 * has not started (supervisor/watchdog).
 */
const QUICK_MS = 40

export type SuccessionNews = Pick<PackedReports, 'wishes' | 'following'>

/** The tasks of one name that this worker was given to follow each other. */
class Line {
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
export class Succession {
  readonly #claims: Claims
  readonly #lines = new Map<string, Line>()
  /** Those whose turn it is, and their lines, by number, until they begin or are refused. */
  readonly #heirs = new Map<number, Line>()
  readonly #next = new Queue<Given>()
  /** How many wait for their turn. */
  #following = 0

  constructor(claims: Claims) {
    this.#claims = claims
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
    const line = this.#lines.get(name) ?? new Line({ name, count: 1 })
    this.#lines.set(name, line)
    const held = this.#heldOf(line)
    const now = held + line.open === 0 ? tasks.length : line.open
    line.open = 0
    for (const [i, given] of tasks.entries())
      if (i < now) this.#turnOf(given, line)
      else {
        line.followers.push(given)
        this.#following++
      }
  }

  /** A task that has one of these slots has ended. @returns whether another one takes it over, which is claimed next */
  ended(slots: NamedSlots, ranMs: number): boolean {
    const line = this.#lines.get(slots.name) ?? new Line(slots)
    this.#lines.set(slots.name, line)
    line.slots = slots
    line.ended++
    line.isQuick = ranMs <= QUICK_MS
    const isFollowed = this.#advance(line)
    if (!isFollowed) line.open++
    return isFollowed
  }

  /** @param slots those of which it has one */
  began(number: number, slots: NamedSlots | undefined): void {
    if (this.#heirs.size > 0 && this.#heirs.delete(number)) return
    if (slots === undefined) return
    const line = this.#lines.get(slots.name)
    if (line !== undefined && line.open > 0) line.open--
  }

  /** It does not begin: its slot is for the next one, or for nobody here. @returns the report, with the slot that was given back */
  refused(number: number, report: Report): Report {
    const line = this.#heirs.get(number)
    if (line === undefined) return report
    this.#heirs.delete(number)
    // the worker for tasks that have to be alone needs the slot
    if (report.reason !== 'alone' && this.#advance(line)) return report
    const isFree = this.#claims.dropKept?.(line.slots) === true
    if (this.#heldOf(line) === 0) while (this.#advance(line));
    return isFree ? { ...report, slots: line.slots } : report
  }

  /** None of them is to begin here. */
  drop(): Given[] {
    const dropped = [...this.#next]
    this.#next.clear()
    for (const { followers } of this.#lines.values()) {
      dropped.push(...followers)
      followers.clear()
    }
    this.#following = 0
    return dropped
  }

  /** What the master is to know, once. */
  takeNews(): SuccessionNews {
    const [wishes, following] = [this.#wishes(), this.#following]
    return { ...(wishes.length > 0 && { wishes }), ...(following > 0 && { following }) }
  }

  /** How many more tasks of each name whose tasks have ended should be here. */
  #wishes(): SlotWish[] {
    const wishes: SlotWish[] = []
    for (const line of this.#lines.values()) {
      if (line.ended === 0) continue
      line.ended = 0
      const behind = line.isQuick ? this.#heldOf(line) + line.open : 0
      const wanted = line.open + behind - line.followers.size
      if (wanted > 0) wishes.push({ ...line.slots, wanted })
    }
    return wishes
  }

  #heldOf({ slots }: Line): number {
    return this.#claims.heldSlots?.(slots.name) ?? 0
  }

  #advance(line: Line): boolean {
    const next = line.followers.pop()
    if (next === undefined) return false
    this.#following--
    this.#turnOf(next, line)
    return true
  }

  #turnOf(given: Given, line: Line): void {
    this.#heirs.set(given.number, line)
    this.#next.push(given)
  }
}
