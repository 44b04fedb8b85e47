import { Alarm } from '../../base/clock.js'
import { Heap } from '../../base/heap.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { FeedReason, ParkReason } from '../../base/task/parked.js'
import type { Ref } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import type { Counts, Feed, FeedStats, LeaseKeeper } from '../feed.js'
import { isDecided } from '../last-runs.js'
import { ranked, statsOf } from './feed-stats.js'
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
export class MemoryFeed implements Feed {
  readonly #spool: MemorySpool
  readonly #ready = new Heap<MemoryTask>(isMoreUrgent)
  readonly #waiting = new Heap<Waiting>((a, b) => a.atMs < b.atMs)
  readonly #busy = new Set<Ref>()
  /** In the order in which they were parked. */
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

  take(limit: number): readonly Ref[] {
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
    const ref = this.#spool.issueTicket(task)
    this.#busy.add(ref)
    return ref
  }

  /** @returns the task, unless it is gone by now */
  #takeBack(ref: Ref): MemoryTask | undefined {
    const task = this.#spool.taskOf(ref)
    this.#busy.delete(ref)
    this.#spool.returnTicket(ref)
    return task
  }

  parkedFor(reason: ParkReason): number {
    return reason === 'slot' ? this.#slotQueues.size : (this.#parked.get(reason)?.size ?? 0)
  }

  takeParked(reason: FeedReason, limit: number): readonly Ref[] {
    const parked = this.#parked.get(reason) ?? new Set()
    const tasks = [...parked].slice(0, limit)
    for (const task of tasks) parked.delete(task)
    return tasks.map(task => this.#give(task))
  }

  unpark(reason: FeedReason): void {
    for (const task of this.#parked.get(reason) ?? []) this.#ready.push(task)
    this.#parked.delete(reason)
    this.#wake()
  }

  handlersReplaced(): void {
    this.#slotQueues.releaseAll()
    this.unpark('unknown-name')
  }

  done(refs: readonly Ref[]): void {
    for (const ref of refs) {
      const task = this.#takeBack(ref)
      if (task !== undefined) task.lastRun = undefined
    }
  }

  returned(reports: readonly Report[]): void {
    for (const report of reports) {
      const task = this.#takeBack(report.ref)
      if (task === undefined) continue
      if (isDecided(report.kind)) task.lastRun = undefined
      this.#keep(task, report)
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

  abandoned(refs: readonly Ref[]): void {
    for (const ref of refs) {
      const task = this.#takeBack(ref)
      if (task !== undefined) this.#ready.push(task)
    }
  }

  cutShort(ref: Ref, lastRun: LastRun, lease?: string): void {
    const task = this.#spool.taskOf(ref, lease)
    if (task !== undefined) task.lastRun = lastRun
  }

  lastRunOf(ref: Ref): LastRun | undefined {
    return this.#spool.taskOf(ref)?.lastRun
  }

  get leases(): LeaseKeeper {
    return {
      everyMs: this.#spool.leaseMs / 3,
      keep: leases => {
        for (const lease of leases) this.#spool.renew(lease)
      },
    }
  }

  /** Each claim has a notice. */
  isHeldBy(): boolean {
    return false
  }

  /** The feed is notified of every new task, so there is nothing to look for. */
  lookNow(): void {
    this.#wake()
  }

  setFrequency(frequencyMs: number | null): void {
    this.#ignoredMs = frequencyMs ?? this.#frequencyMs
  }

  counts(): Counts {
    this.#promote()
    let waiting = this.#waiting.size + this.#slotQueues.size
    for (const { size } of this.#parked.values()) waiting += size
    return { ready: this.#ready.size, busy: this.#busy.size, waiting }
  }

  stats(): FeedStats {
    const nextDueMs = this.#waiting.peek()?.atMs
    return statsOf(this.counts(), this.#ready.values(), this.#parked, this.#slotQueues.stats, nextDueMs)
  }

  get isDrained(): boolean {
    const { ready, busy } = this.counts()
    const parked = this.parkedFor('alone') + this.parkedFor('crashed') + this.parkedFor('slot')
    return this.#isOpen && ready + busy + parked === 0
  }

  readonly stalledMs = 0

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
