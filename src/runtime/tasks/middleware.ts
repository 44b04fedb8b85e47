import { describe, SpooldError } from '../../base/errors.js'
import type { CallOptions, When } from './call-options.js'
import type { RunningTask } from './daemon.js'
import type { ScheduledTask } from './scheduled-task.js'

/** A call of `schedule`, as middleware sees it. */
export interface TaskCall {
  readonly name: string
  readonly args: readonly unknown[]
  /** Undefined: as soon as possible. */
  readonly at: When | undefined
  readonly options: CallOptions
}

/** The parts of a call that middleware replaces. The rest stays as the caller gave it. */
export type TaskCallChanges = Partial<Pick<TaskCall, 'args' | 'at' | 'options'>>

/**
 * Functions around the storing and the runs of tasks. The middleware that is registered first is the outermost. That of an
 * application is outside that of its registries, and that of a registry is outside that of the registries that it uses.
 */
export interface Middleware {
  /**
   * Called around the storing of one task, also of each task of a batch. What it throws reaches the caller. If it does not call
   * `next`, nothing is stored, and it has to return a task itself. Names, arguments and destinations are checked within `next`.
   */
  readonly enqueue?: (
    call: TaskCall,
    next: (changes?: TaskCallChanges) => Promise<ScheduledTask>,
  ) => Promise<ScheduledTask>
  /**
   * Called around each run. What it throws fails the task, as if the function had thrown it. If it returns without calling
   * `next`, the function is not called, and the task has succeeded. `next` resolves to what the function returns.
   */
  readonly run?: (task: RunningTask, next: () => Promise<unknown>) => unknown
}

export type Layer<Kind extends keyof Middleware> = NonNullable<Middleware[Kind]>

const KINDS: readonly string[] = ['enqueue', 'run']

/** @throws SpooldError TASK_INVALID */
export function checkMiddleware(given: unknown, place: string): asserts given is Middleware {
  const entries = typeof given === 'object' && given !== null ? Object.entries(given) : []
  const isRight = entries.every(([kind, layer]) => KINDS.includes(kind) && typeof layer === 'function')
  if (isRight && entries.length > 0) return
  throw new SpooldError(
    'TASK_INVALID',
    `${place}: expected middleware { enqueue, run }, functions of which one may be missing, got ${describe(given)}`,
  )
}
