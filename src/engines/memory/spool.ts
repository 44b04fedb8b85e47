import type { LastRun } from '../../base/task/last-run.js'
import type { BuryReason } from '../../base/task/outcome.js'
import type { TaskName } from '../../base/task/ref.js'
import type { PeriodicState } from '../../base/task/schedule.js'
import type { RetryPolicy, Terms } from '../../base/task/terms.js'
import type { Vars } from '../../formats/protocol/vars.js'
import type { Past } from '../contracts/verdict.js'
import { MemorySlots } from './slots.js'

/** A worker's right to a task. Once it has expired, another worker may take the task over. */
interface Hold {
  readonly lease: string
  /** On the clock of `performance.now()`. */
  untilMs: number
}

/** A stored task, claimed or not. */
export interface MemoryTask {
  readonly name: TaskName
  readonly vars: Vars
  readonly body: Buffer | undefined
  readonly priority: number | null
  /** The order of arrival. */
  readonly number: number
  /** Epoch ms. */
  dueAtMs: number
  /** Runs that ended in a retry, an error or a crash. */
  attempts: number
  /** Runs that killed their worker. */
  crashes: number
  /** The retry policy that its handler requested in place of the options. */
  policy: Partial<RetryPolicy>
  /** The terms that the handlers of the worker that claimed the task last have for it. */
  terms: Terms | undefined
  /** The mark of its current or last unfinished run. */
  past: Past
  /** How that run was cut short, if a master knows. */
  lastRun: LastRun | undefined
  hold: Hold | undefined
}

interface MemoryLimits {
  /** The maximum number of tasks, including dead ones, and the maximum number of ids. */
  readonly capacity: number
  /** How long a claim lasts if it is not renewed. */
  readonly leaseMs: number
}

const LIMITS: MemoryLimits = { capacity: 1_000_000, leaseMs: 30_000 }

/** A dead letter: a task that was buried, and why. */
interface DeadTask {
  readonly task: MemoryTask
  /** Epoch ms. */
  readonly buriedAt: number
  readonly reason: BuryReason
  readonly detail: string
}

/** The tasks that one process keeps for itself. They are lost when it ends. */
export class MemorySpool {
  readonly name: string
  readonly capacity: number
  readonly leaseMs: number
  readonly tasks = new Map<TaskName, MemoryTask>()
  readonly dead = new Map<TaskName, DeadTask>()
  /** Ids that callers gave, with the time they were first used (epoch ms). */
  readonly ids = new Map<string, { readonly path: string; readonly sinceMs: number }>()
  /** The states of periodic tasks, by name. */
  readonly periodic = new Map<string, PeriodicState>()
  /** Since when schedules are paused, by their hash; epoch ms. */
  readonly schedulePauses = new Map<string, number>()
  /** The names of the leases that are held. */
  readonly leases = new Set<string>()
  readonly #watchers = new Set<(task: MemoryTask) => void>()
  readonly slots = new MemorySlots(lease => this.#isCurrent(lease))
  /** The tasks by the leases of claims that have not ended. A lease may have expired. */
  readonly #leased = new Map<string, MemoryTask>()
  #next = 1
  #nextLease = 1

  constructor(name: string, { capacity, leaseMs }: Partial<MemoryLimits> = {}) {
    this.name = name
    this.capacity = capacity ?? LIMITS.capacity
    this.leaseMs = leaseMs ?? LIMITS.leaseMs
  }

  get size(): number {
    return this.tasks.size + this.dead.size
  }

  /** Returns a name for a task to be added. */
  newName(): string {
    return `task-${this.#next++}`
  }

  add(task: Pick<MemoryTask, 'vars' | 'body' | 'priority' | 'dueAtMs'>, name = this.newName()): MemoryTask {
    const number = Number(name.slice('task-'.length))
    const added: MemoryTask = {
      ...task,
      number,
      name,
      attempts: 0,
      crashes: 0,
      policy: {},
      terms: undefined,
      past: 'none',
      lastRun: undefined,
      hold: undefined,
    }
    this.tasks.set(added.name, added)
    for (const tell of this.#watchers) tell(added)
    return added
  }

  /** Claims a task. @returns the lease; undefined while another worker holds the task */
  lease(task: MemoryTask): string | undefined {
    const now = performance.now()
    if (task.hold !== undefined && task.hold.untilMs > now) return undefined
    if (task.hold !== undefined) this.giveUp(task.hold.lease)
    const lease = `lease ${this.#nextLease++}`
    task.hold = { lease, untilMs: now + this.leaseMs }
    this.#leased.set(lease, task)
    return lease
  }

  renew(lease: string): void {
    const hold = this.#leased.get(lease)?.hold
    if (hold !== undefined) hold.untilMs = performance.now() + this.leaseMs
  }

  /** True unless the lease was given up, or another worker has taken the task over. */
  isLeased(lease: string): boolean {
    return this.#leased.has(lease)
  }

  giveUp(lease: string): void {
    const task = this.#leased.get(lease)
    if (task !== undefined) task.hold = undefined
    this.#leased.delete(lease)
    this.slots.giveBack(lease)
  }

  /** True unless the lease was given up or has expired. */
  #isCurrent(lease: string): boolean {
    return (this.#leased.get(lease)?.hold?.untilMs ?? 0) > performance.now()
  }

  pathOf({ name }: MemoryTask): string {
    return `${this.name}/${name}`
  }

  bury(task: MemoryTask, reason: DeadTask['reason'], detail: string): void {
    this.tasks.delete(task.name)
    this.dead.set(task.name, { task, reason, detail, buriedAt: Date.now() })
  }

  /** @param tell called with every task that is added from now on @returns a function that ends this */
  watch(tell: (task: MemoryTask) => void): () => void {
    this.#watchers.add(tell)
    return () => this.#watchers.delete(tell)
  }
}
