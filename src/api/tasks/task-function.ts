import { type CallOptions, knownOptions, timeOf } from '../../runtime/tasks/call-options.js'
import { type TaskEntry, taskIn } from '../../runtime/tasks/registry.js'
import type { ScheduledTask } from '../../runtime/tasks/scheduled-task.js'
import { storeBatch, type TaskBatch } from './batch.js'
import { schedule } from './schedule.js'
import type { Scheduler } from './scheduler.js'

/** A registered function. It can still be called directly, and it schedules itself. */
export interface NamedTask<
  Params extends readonly unknown[] = never,
  Result = unknown,
  Args extends readonly unknown[] = Params,
> extends Scheduler<Args> {
  (...args: Params): Result
  /** The task's name. */
  readonly name: string
  /**
   * Returns a scheduler with options of its own: another spool, a priority, an id.
   *
   * @throws SpooldError REQUEST_INVALID for an unknown option
   */
  with(options: CallOptions): Scheduler<Args>
  /** Stores the tasks of a batch, as `scheduleBatch` of the task's registry does. */
  scheduleBatch(batch: TaskBatch): Promise<ScheduledTask[]>
}

export function createTask<Params extends readonly unknown[], Result, Args extends readonly unknown[]>(
  fn: (...args: Params) => Result,
  entry: TaskEntry,
): NamedTask<Params, Result, Args> {
  const callable = function (this: unknown, ...args: Params): Result {
    return fn.apply(this, args as never)
  }
  Object.defineProperty(callable, 'name', { value: entry.name })
  Object.defineProperty(callable, 'length', { value: fn.length })
  return Object.assign(callable, {
    ...schedulerOf<Args>(entry, {}),
    with: (options: CallOptions) => schedulerOf<Args>(entry, knownOptions(options)),
    scheduleBatch: async (batch: TaskBatch) => storeBatch(batch, task => taskIn(entry.registry, task)),
  })
}

const CALL = 'scheduleAt(TIME, ...ARGUMENTS)'

function schedulerOf<Args extends readonly unknown[]>(
  entry: TaskEntry,
  options: CallOptions,
): Scheduler<Args> {
  return {
    schedule: (...args) => schedule({ entry, args, at: undefined, options }),
    scheduleAt: async (at, ...args) => schedule({ entry, args, at: timeOf(at, CALL), options }),
  }
}
