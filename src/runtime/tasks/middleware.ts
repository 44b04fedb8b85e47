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

/** What goes in with the rest of the call in place of what the caller gave. */
export type TaskCallChanges = Partial<Pick<TaskCall, 'args' | 'at' | 'options'>>

/**
 * What is done around tasks: the first that is registered is the outermost, and those of an application are outside of its
 * registries', whose are outside of those that they use.
 */
export interface Middleware {
  /**
   * Around the storing of one task, also of a batch. What it throws, the caller gets; if it does not call `next`, nothing is
   * stored, and it has to return a task itself. Names, arguments and destinations are checked within.
   */
  readonly enqueue?: (
    call: TaskCall,
    next: (changes?: TaskCallChanges) => Promise<ScheduledTask>,
  ) => Promise<ScheduledTask>
  /**
   * Around each run. What it throws is the task's failure, as if the function had; if it returns without calling `next`, the
   * function is not called, and the task has succeeded. `next` resolves to what the function returns.
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
