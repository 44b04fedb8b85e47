import type { Vars } from '../../protocol/vars.js'
import type { Ref } from '../../task/ref.js'
import type { LimitReached, RetryPolicy } from '../../task/retry-policy.js'

/** The mark of a run that has begun; it stays if the run never ends. */
export type Past = 'none' | 'died-alone' | 'died-beside' | 'died-once'

/** A stored task, claimed or not. */
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
  /** Runs that killed their worker. */
  crashes: number
  /** The retry policy that its handler requested in place of the options. */
  policy: Partial<RetryPolicy>
  /** The mark of its current or last unfinished run. */
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

/** The tasks that one process keeps for itself. They are lost when it ends. */
export class MemorySpool {
  readonly name: string
  /** The maximum number of tasks, including dead ones, and the maximum number of ids. */
  readonly capacity: number
  readonly tasks = new Map<Ref, MemoryTask>()
  readonly dead = new Map<Ref, DeadTask>()
  /** Ids that callers gave, with the time they were first used (epoch ms). */
  readonly ids = new Map<string, { readonly path: string; readonly sinceMs: number }>()
  /** The names of the leases that are held. */
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

  /** @param tell called with every task that is added from now on @returns a function that stops it */
  watch(tell: (task: MemoryTask) => void): () => void {
    this.#watchers.add(tell)
    return () => this.#watchers.delete(tell)
  }
}
