import type { Ref } from '../../base/task/ref.js'
import type { SlotQueueStats } from '../../base/task/terms.js'
import { ticketRef } from './refs.js'
import type { QueueView, SpoolView } from './view.js'

/** One queue of the spool. */
interface Source {
  readonly view: QueueView
  /** How many jobs may be pulled, as far as is known. */
  due: number
  /** How many jobs have been pulled, by anybody, and not settled. */
  active: number
  /** How many tickets are out for which no worker has a job yet. */
  unclaimed: number
  /** True if no handler here knows the name of its tasks. */
  isUnknown: boolean
  /** True if a worker is to look although all slots are taken, because it may know another limit. */
  isToTry: boolean
}

/**
 * The tickets that one master gives to its workers: for each queue as many as jobs are due for which no ticket is out, and no
 * more than its limit leaves. The limit itself is kept by Redis, which counts the jobs of all masters.
 */
export class Tickets {
  /** The beginning of the tickets. No other master has it. */
  readonly #prefix: string
  #next = 0
  /** The queues, by the name of their tasks; the spool's own has none. */
  #sources = new Map<string | undefined, Source>()
  #wasSeen = false
  /** How many jobs of each queue may be asked for at a time. */
  #most = Number.POSITIVE_INFINITY
  #isPaused = false
  /** The tickets that were given away. `task` is the queue; undefined: the spool's own. */
  readonly #given = new Map<Ref, { readonly task: string | undefined; isClaimed: boolean }>()

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  see({ queues }: SpoolView, most = Number.POSITIVE_INFINITY): void {
    const before = this.#sources
    this.#most = most
    this.#isPaused = queues[0]?.isPaused === true
    this.#sources = new Map(
      queues.map(view => {
        const { unclaimed = 0, isUnknown = false, isToTry = !this.#wasSeen } = before.get(view.task) ?? {}
        return [view.task, { view, due: view.due, active: view.active, unclaimed, isUnknown, isToTry }]
      }),
    )
    this.#wasSeen = true
  }

  get ready(): number {
    return this.#sum(source => this.#readyIn(source))
  }

  /** As `ready`, for people: it also counts jobs that are not given out while Redis gives few jobs, or none. */
  get notGiven(): number {
    return this.#sum(source => this.#readyIn(source, source.due))
  }

  /** True if jobs of a queue may be pulled, or a ticket is out for one. */
  isDue({ task }: QueueView): boolean {
    const source = this.#sources.get(task)
    return source !== undefined && (source.unclaimed > 0 || this.#readyIn(source, source.due) > 0)
  }

  /** How many jobs are due that a handler here knows, whether there are slots for them or not. */
  get due(): number {
    return this.#sum(({ due, isUnknown }) => (isUnknown ? 0 : due))
  }

  /** How many jobs are due that no handler here knows. */
  get unknown(): number {
    return this.#sum(({ due, isUnknown }) => (isUnknown ? due : 0))
  }

  /** How many jobs somebody has: as Redis said last, less those that were given back here since. */
  get active(): number {
    return this.#sum(({ view, active }) => Math.min(view.active, active))
  }

  /** How many tickets are out for which a job was pulled. */
  get claimedCount(): number {
    return [...this.#given.values()].filter(({ isClaimed }) => isClaimed).length
  }

  /** The queues whose jobs wait for a slot. */
  get slotQueues(): SlotQueueStats[] {
    return [...this.#sources.values()].flatMap(source => {
      const { limit, task } = source.view
      const parked = limit === undefined || source.isUnknown ? 0 : source.due - Math.max(0, freeIn(source))
      return task === undefined || limit === undefined || parked <= 0
        ? []
        : [{ name: task, count: limit, parked }]
    })
  }

  /** Takes tickets, for the most urgent jobs first, as far as is known. */
  take(limit: number): Ref[] {
    const refs: Ref[] = []
    for (const source of [...this.#sources.values()].sort(byUrgency)) {
      const count = Math.min(limit - refs.length, this.#readyIn(source))
      for (let i = 0; i < count; i++) refs.push(this.#give(source))
    }
    return refs
  }

  /** Notes that a worker has pulled a job for a ticket. */
  claimed(ref: Ref): void {
    const ticket = this.#given.get(ref)
    if (ticket === undefined || ticket.isClaimed) return
    ticket.isClaimed = true
    const source = this.#sources.get(ticket.task)
    if (source === undefined) return
    source.unclaimed--
    source.active++
    pulled(source)
  }

  /** True if no job has been pulled for a ticket, as far as is known. */
  isUnclaimed(ref: Ref): boolean {
    return this.#given.get(ref)?.isClaimed === false
  }

  /** Takes back a ticket that no worker has any more. @param isPulled true if a job left the queue for it */
  takeBack(ref: Ref, isPulled: boolean): void {
    const ticket = this.#given.get(ref)
    const source = this.#sources.get(ticket?.task)
    this.#given.delete(ref)
    if (ticket === undefined || source === undefined) return
    if (ticket.isClaimed) source.active = Math.max(0, source.active - 1)
    else source.unclaimed--
    if (!ticket.isClaimed && isPulled) pulled(source)
  }

  /** Notes that a job that was active is due again. */
  putBack(task: string | undefined): void {
    const source = this.#sources.get(task)
    if (source === undefined) return
    source.due++
    source.active = Math.max(0, source.active - 1)
  }

  /** Notes that a worker found all slots taken, or that no handler knows the name. */
  refused(ref: Ref, reason: 'slot' | 'unknown-name'): void {
    const source = this.#sources.get(this.#given.get(ref)?.task)
    if (source === undefined) return
    if (reason === 'slot') source.active = Math.max(source.active, source.view.limit ?? 0)
    else source.isUnknown = true
  }

  /** Notes that the handlers may know other names and other limits. */
  handlersReplaced(): void {
    for (const source of this.#sources.values()) {
      source.isUnknown = false
      source.isToTry = true
    }
  }

  #give(source: Source): Ref {
    const { task } = source.view
    const isSifting = [...this.#sources.values()].some(({ view }) => view.limit !== undefined)
    const ref = ticketRef({ task, isSifting }, `${this.#prefix}-${this.#next++}`)
    this.#given.set(ref, { task, isClaimed: false })
    source.unclaimed++
    source.isToTry = false
    return ref
  }

  #readyIn(source: Source, most = this.#most): number {
    const { due, unclaimed, isUnknown, isToTry, view } = source
    const waiting = Math.min(due, most) - unclaimed
    if (waiting <= 0 || isUnknown || this.#isPaused || view.isPaused) return 0
    const tries = isToTry && view.task !== undefined && unclaimed === 0 ? 1 : 0
    return Math.max(tries, Math.min(waiting, freeIn(source) - unclaimed))
  }

  #sum(count: (source: Source) => number): number {
    return [...this.#sources.values()].reduce((sum, source) => sum + count(source), 0)
  }
}

function freeIn({ view: { limit }, active }: Source): number {
  return limit === undefined ? Number.POSITIVE_INFINITY : limit - active
}

function pulled(source: Source): void {
  source.due = Math.max(0, source.due - 1)
}

/** Compares queues by the job in front: its priority, and among equals when it was due. */
function byUrgency({ view: { head: a } }: Source, { view: { head: b } }: Source): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
  return a.priority - b.priority || a.dueMs - b.dueMs
}
