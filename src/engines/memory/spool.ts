import type { Vars } from '../../protocol/vars.js'
import type { Ref } from '../../task/ref.js'
import type { LimitReached, RetryPolicy } from '../../task/retry-policy.js'

/** What a run leaves that has begun and never ends. */
export type Past = 'none' | 'died-alone' | 'died-beside' | 'died-once'

/** A task at rest, or with a claim. */
export interface MemoryTask {
  readonly ref: Ref
  readonly name: string
  readonly vars: Vars
  readonly body: Buffer | undefined
  readonly priority: number | null
  /** The order of arrival. */
  readonly number: number
  /** Epoch ms. */
  dueAtMs: number
  /** Runs that ended in a retry, an error or a crash. */
  attempts: number
  /** Runs that took their worker with them. */
  crashes: number
  /** What its handler asked for in place of the options. */
  policy: Partial<RetryPolicy>
  /** Of the run that has begun. */
  past: Past
  isClaimed: boolean
}

/** Why a task is out of rotation. */
export interface DeadTask {
  readonly task: MemoryTask
  /** Epoch ms. */
  readonly buriedAt: number
  readonly reason: LimitReached['reason'] | 'asked' | 'outcome-unknown'
  readonly detail: string
}

/** The tasks that one process keeps for itself: they are gone when it ends. */
export class MemorySpool {
  readonly name: string
  /** How many tasks it may hold, dead ones among them, and how many ids. */
  readonly capacity: number
  readonly tasks = new Map<Ref, MemoryTask>()
  readonly dead = new Map<Ref, DeadTask>()
  /** Ids that callers gave, and since when (epoch ms). */
  readonly ids = new Map<string, { readonly path: string; readonly sinceMs: number }>()
  /** Those that somebody holds, by name. */
  readonly leases = new Set<string>()
  readonly #watchers = new Set<(task: MemoryTask) => void>()
  #next = 1

  constructor(name: string, capacity = 1_000_000) {
    this.name = name
    this.capacity = capacity
  }

  get size(): number {
    return this.tasks.size + this.dead.size
  }

  add(task: Pick<MemoryTask, 'vars' | 'body' | 'priority' | 'dueAtMs'>): MemoryTask {
    const number = this.#next++
    const added: MemoryTask = {
      ...task,
      number,
      ref: `#${number}`,
      name: `task-${number}`,
      attempts: 0,
      crashes: 0,
      policy: {},
      past: 'none',
      isClaimed: false,
    }
    this.tasks.set(added.ref, added)
    for (const tell of this.#watchers) tell(added)
    return added
  }

  pathOf({ name }: MemoryTask): string {
    return `${this.name}/${name}`
  }

  bury(task: MemoryTask, reason: DeadTask['reason'], detail: string): void {
    this.tasks.delete(task.ref)
    this.dead.set(task.ref, { task, reason, detail, buriedAt: Date.now() })
  }

  /** @param tell of every task that is added from now on @returns stops that */
  watch(tell: (task: MemoryTask) => void): () => void {
    this.#watchers.add(tell)
    return () => this.#watchers.delete(tell)
  }
}
