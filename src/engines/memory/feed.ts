import { Alarm } from '../../base/clock.js'
import { Heap } from '../../base/heap.js'
import { type FeedReason, type ParkReason, parkedByReason } from '../../base/task/parked.js'
import type { Ref } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { NamedSlots, SlotQueueStats } from '../../base/task/terms.js'
import type {
  Counts,
  FeedLoss,
  FeedNews,
  FeedState,
  FeedStats,
  LeaseKeeper,
  LookHint,
  PriorityStats,
  Source,
} from '../feed.js'
import { MemorySlotQueues } from './slot-queues.js'
import type { MemorySpool, MemoryTask } from './spool.js'

/** A task that another feed's worker holds is tried again after this time. */
const LOCKED_MS = 100

interface Waiting {
  readonly task: MemoryTask
  readonly atMs: number
}

/**
 * The tasks of a spool in memory, as one master sees them. Each is in one of these states:
 *
 *   waiting (not due) → ready → busy (with a worker) → forgotten | waiting | parked → ready
 */
export class MemoryFeed implements Source {
  readonly #spool: MemorySpool
  readonly #ready = new Heap<MemoryTask>(isMoreUrgent)
  readonly #waiting = new Heap<Waiting>((a, b) => a.atMs < b.atMs)
  readonly #busy = new Set<Ref>()
  /** The parked tasks per reason, in the order in which they were parked. */
  readonly #parked = new Map<ParkReason, Set<MemoryTask>>()
  readonly #slotQueues: MemorySlotQueues
  readonly #alarm = new Alarm(() => this.#wake())
  readonly #frequencyMs: number
  #ignoredMs: number
  #wakeUp = () => {}
  #stopWatching = () => {}
  #isOpen = false

  /** @param frequencyMs how long a task waits after every handler has ignored it */
  constructor(spool: MemorySpool, frequencyMs: number) {
    this.#spool = spool
    this.#frequencyMs = frequencyMs
    this.#ignoredMs = frequencyMs
    this.#slotQueues = new MemorySlotQueues(spool.slots, isMoreUrgent, task => this.#makeReady(task))
  }

  async open(wakeUp: () => void): Promise<void> {
    this.#isOpen = true
    this.#wakeUp = wakeUp
    this.#stopWatching = this.#spool.watch(task => {
      this.#schedule(task, task.dueAtMs)
      this.#wake()
    })
    for (const task of this.#spool.tasks.values()) this.#schedule(task, task.dueAtMs)
    this.#wake()
  }

  /** @see Feed.take. It never has tasks that follow another one on its slot. */
  take(limit: number, from?: FeedReason | NamedSlots): readonly Ref[] {
    if (typeof from === 'object') return []
    return from === undefined ? this.#takeReady(limit) : this.#takeParked(from, limit)
  }

  #takeReady(limit: number): readonly Ref[] {
    this.#promote()
    const refs: Ref[] = []
    while (refs.length < limit) {
      const task = this.#ready.pop()
      if (task === undefined) break
      refs.push(this.#give(task))
    }
    return refs
  }

  #give(task: MemoryTask): Ref {
    this.#busy.add(task.name)
    return task.name
  }

  /** @returns the task; undefined if it is gone by now */
  #takeBack(ref: Ref): MemoryTask | undefined {
    return this.#busy.delete(ref) ? this.#spool.tasks.get(ref) : undefined
  }

  #takeParked(reason: FeedReason, limit: number): readonly Ref[] {
    const parked = this.#parked.get(reason) ?? new Set()
    const tasks = [...parked].slice(0, limit)
    for (const task of tasks) parked.delete(task)
    return tasks.map(task => this.#give(task))
  }

  changed(what: FeedReason | 'handlers'): void {
    if (what === 'handlers') this.#slotQueues.releaseAll()
    const reason = what === 'handlers' ? 'unknown-name' : what
    for (const task of this.#parked.get(reason) ?? []) this.#ready.push(task)
    this.#parked.delete(reason)
    this.#wake()
  }

  report({ done = [], returned = [] }: FeedNews): void {
    for (const ref of done) this.#takeBack(ref)
    for (const report of returned) {
      const task = this.#takeBack(report.ref)
      if (task !== undefined) this.#keep(task, report)
    }
    this.#arm()
  }

  #keep(task: MemoryTask, { kind, atMs, reason, slots }: Report): void {
    switch (kind) {
      case 'parked': {
        if (slots !== undefined) return this.#slotQueues.add(task, slots)
        const parked = this.#parked.get(reason ?? 'alone') ?? new Set()
        this.#parked.set(reason ?? 'alone', parked.add(task))
        return
      }
      case 'untouched':
        return this.#ready.push(task)
      case 'locked':
        return this.#schedule(task, Date.now() + LOCKED_MS)
      case 'ignore':
        return this.#schedule(task, Date.now() + this.#ignoredMs)
      default:
        return this.#schedule(task, atMs ?? Date.now())
    }
  }

  /** Refs that a worker had claimed without announcing them are due again when their leases are over. */
  lose({ refs = [], cutShort = [] }: FeedLoss): void {
    for (const { ref, lastRun } of cutShort) {
      const task = this.#spool.tasks.get(ref)
      if (task !== undefined) task.lastRun = lastRun
    }
    for (const ref of refs) {
      const task = this.#takeBack(ref)
      if (task !== undefined) this.#ready.push(task)
    }
  }

  get leases(): LeaseKeeper {
    return {
      everyMs: this.#spool.leaseMs / 3,
      keep: leases => {
        for (const lease of leases) this.#spool.renew(lease)
      },
      /** A worker's own ref brings its task, so no other one is needed. */
      refOf: () => undefined,
    }
  }

  /** Sets how long ignored tasks wait. There is nothing to look for, because the feed is notified of every new task. */
  look({ everyMs }: LookHint = {}): void {
    if (everyMs === undefined) this.#wake()
    else this.#ignoredMs = everyMs ?? this.#frequencyMs
  }

  get state(): FeedState {
    this.#promote()
    const countOf = (reason: ParkReason) =>
      reason === 'slot' ? this.#slotQueues.size : (this.#parked.get(reason)?.size ?? 0)
    const parked = parkedByReason(countOf)
    const all = Object.values(parked).reduce((sum, count) => sum + count, 0)
    const [ready, busy] = [this.#ready.size, this.#busy.size]
    const isNoneDue = (this.#waiting.peek()?.atMs ?? Number.POSITIVE_INFINITY) > Date.now() // the alarm may be late
    const isNoneLeft = ready + busy + parked.alone + parked.crashed + parked.slot === 0
    const isDrained = this.#isOpen && isNoneLeft && isNoneDue
    return { ready, busy, waiting: this.#waiting.size + all, parked, isDrained, stalledMs: 0 }
  }

  stats(): FeedStats {
    const nextDueMs = this.#waiting.peek()?.atMs
    return statsOf(this.state, this.#ready.values(), this.#parked, this.#slotQueues.stats, nextDueMs)
  }

  close(): void {
    this.#isOpen = false
    this.#stopWatching()
    this.#slotQueues.close()
    this.#alarm.clear()
    this.#wakeUp = () => {}
  }

  #makeReady(task: MemoryTask): void {
    this.#ready.push(task)
    this.#wake()
  }

  #schedule(task: MemoryTask, atMs: number): void {
    if (atMs <= Date.now()) this.#ready.push(task)
    else this.#waiting.push({ task, atMs })
  }

  #promote(): void {
    const now = Date.now()
    for (
      let next = this.#waiting.peek();
      next !== undefined && next.atMs <= now;
      next = this.#waiting.peek()
    ) {
      this.#waiting.pop()
      this.#ready.push(next.task)
    }
  }

  #wake(): void {
    this.#promote()
    this.#arm()
    this.#wakeUp()
  }

  #arm(): void {
    const next = this.#waiting.peek()
    if (this.#isOpen && next !== undefined)
      this.#alarm.wakeAt(performance.now() + Math.max(1, next.atMs - Date.now()))
  }
}

/** A lower priority number runs first, tasks without a priority last; ties run in order of arrival. */
function isMoreUrgent(a: MemoryTask, b: MemoryTask): boolean {
  const [first, second] = [ranked(a.priority), ranked(b.priority)]
  return first === second ? a.number < b.number : first < second
}

/** @param nextDueMs when the next task that is not due will be, epoch ms */
function statsOf(
  { ready: due, busy, waiting }: Counts,
  ready: Iterable<MemoryTask>,
  parkedTasks: ReadonlyMap<ParkReason, ReadonlySet<MemoryTask>>,
  slotQueues: readonly SlotQueueStats[],
  nextDueMs: number | undefined,
): FeedStats {
  const queued = slotQueues.reduce((sum, { parked }) => sum + parked, 0)
  const others = Array.from(parkedTasks, ([reason, { size }]) => [reason, size] as const)
  const parked = [...others, ['slot', queued] as const]
  const byPriority = new Map<number | null, number>()
  let oldest = Number.POSITIVE_INFINITY
  for (const { priority, dueAtMs } of ready) {
    byPriority.set(priority, (byPriority.get(priority) ?? 0) + 1)
    oldest = Math.min(oldest, dueAtMs)
  }
  return {
    ...{ ready: due, busy, waiting },
    ...{ unseen: 0, unseenSinceMs: null },
    ...{ later: waiting - parked.reduce((sum, [, size]) => sum + size, 0), held: 0, unreadable: 0 },
    elsewhere: 0,
    isWhole: true,
    tasks: due + busy + waiting,
    countedAtMs: null,
    priorities: [...byPriority].sort(([a], [b]) => ranked(a) - ranked(b)).map(asPriority),
    prioritiesLeftOut: 0,
    parked: Object.fromEntries(parked.filter(([, size]) => size > 0)),
    slotQueues,
    oldestDueMs: Number.isFinite(oldest) ? oldest : null,
    nextDueMs: nextDueMs ?? null,
    look: null,
  }
}

/** Tasks without a priority come last. */
function ranked(priority: number | null): number {
  return priority ?? Number.MAX_SAFE_INTEGER
}

function asPriority([priority, due]: readonly [number | null, number]): PriorityStats {
  return { priority: priority === null ? null : String(priority), due }
}
