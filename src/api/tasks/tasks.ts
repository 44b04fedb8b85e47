import { describe, SpooldError } from '../../base/errors.js'
import type { Destination } from '../../engines/client/target.js'
import { nameFault } from '../../formats/protocol/named.js'
import { mostArguments } from '../../runtime/tasks/arguments.js'
import { type CallOptions, knownOptions, timeOf, type When } from '../../runtime/tasks/call-options.js'
import { checkMiddleware, type Middleware } from '../../runtime/tasks/middleware.js'
import { checkPeriodicSchema, periodicOf } from '../../runtime/tasks/periodic.js'
import {
  type AnyFunction,
  type HasRegistry,
  hasRegistry,
  REGISTRY,
  Registry,
  type TaskEntry,
  taskIn,
} from '../../runtime/tasks/registry.js'
import type { ScheduledTask } from '../../runtime/tasks/scheduled-task.js'
import {
  checkConcurrency,
  checkSettings,
  type OwnSettings,
  type RegistrySettings,
  type TaskDefinition,
  type TaskSettings,
} from '../../runtime/tasks/settings.js'
import type { SchemaInput, SchemaOutput, StandardSchema } from '../../runtime/tasks/standard-schema.js'
import { storeBatch, type TaskBatch } from './batch.js'
import { placeOfCallOf } from './place.js'
import { schedule } from './schedule.js'
import type { Scheduler } from './scheduler.js'
import { createTask, type NamedTask } from './task-function.js'

/** The defaults of a registry's tasks, and where the tasks go, whatever their queue. */
export interface TasksOptions extends RegistrySettings, Destination {}

/** The options of `tasks.add`. */
export interface AddOptions extends TaskSettings, OwnSettings {
  /** The task's name. Default: the function's own name. */
  readonly name?: string
}

/** Schedules tasks, given as themselves or by name. */
export abstract class TaskScheduler implements HasRegistry {
  abstract readonly [REGISTRY]: Registry

  /**
   * Stores a task, to be run as soon as possible: `await tasks.schedule('send-mail', 'joe@example.com')`. Resolves once it is on
   * disk, unless `sync` is false.
   *
   * @throws SpooldError TASK_UNKNOWN, ARGUMENTS_INVALID, QUEUE_UNKNOWN, DESTINATION_MISSING before anything is stored; then as
   *   `spool`
   */
  schedule<Args extends readonly unknown[]>(task: Scheduler<Args>, ...args: Args): Promise<ScheduledTask>
  schedule<Args extends readonly unknown[]>(
    task: (...args: Args) => unknown,
    ...args: Args
  ): Promise<ScheduledTask>
  schedule(task: string, ...args: readonly unknown[]): Promise<ScheduledTask>
  async schedule(task: unknown, ...args: readonly unknown[]): Promise<ScheduledTask> {
    return schedule({ entry: await this.#find(task), args, at: undefined, options: {} })
  }

  /** As `schedule`, but the task runs at this time or later: a Date, epoch seconds, ISO 8601 text, or `+1h30m`. */
  scheduleAt<Args extends readonly unknown[]>(
    task: Scheduler<Args>,
    at: When,
    ...args: Args
  ): Promise<ScheduledTask>
  scheduleAt<Args extends readonly unknown[]>(
    task: (...args: Args) => unknown,
    at: When,
    ...args: Args
  ): Promise<ScheduledTask>
  scheduleAt(task: string, at: When, ...args: readonly unknown[]): Promise<ScheduledTask>
  async scheduleAt(task: unknown, at: When, ...args: readonly unknown[]): Promise<ScheduledTask> {
    const time = timeOf(at) // first: if name and time are swapped, an error about the time says more than one about the task
    return schedule({ entry: await this.#find(task), args, at: time, options: {} })
  }

  /**
   * Returns a scheduler by name with options of its own: another spool, a priority, an id.
   *
   * @throws SpooldError REQUEST_INVALID
   */
  with(options: CallOptions): {
    schedule(task: string, ...args: readonly unknown[]): Promise<ScheduledTask>
  } {
    knownOptions(options)
    return {
      schedule: async (task, ...args) =>
        schedule({ entry: await this.#find(task), args, at: undefined, options }),
    }
  }

  /**
   * Stores the tasks of a batch. The batch cannot be used again.
   *
   * @returns the tasks, in the order in which they were added
   * @throws the errors of `schedule` before anything is stored; SpooldError BATCH_USED; BatchError if not all of them could be
   *   stored
   */
  async scheduleBatch(batch: TaskBatch): Promise<ScheduledTask[]> {
    await this.prepare()
    return storeBatch(batch, task => this.#found(task))
  }

  /**
   * Adds middleware, which runs around the storing and the runs of all tasks of this registry.
   *
   * @throws SpooldError TASK_INVALID
   */
  middleware(...layers: readonly Middleware[]): this {
    const place = placeOfCallOf(this.middleware)
    for (const each of layers) {
      checkMiddleware(each, place)
      this[REGISTRY].middleware.push(each)
    }
    return this
  }

  /** Loads tasks that are not known yet; undefined if there is nothing to wait for. */
  protected prepare(): Promise<void> | undefined {
    return undefined
  }

  #find(task: unknown): TaskEntry | Promise<TaskEntry> {
    const preparing = this.prepare()
    return preparing === undefined ? this.#found(task) : preparing.then(() => this.#found(task))
  }

  #found(task: unknown): TaskEntry {
    return taskIn(this[REGISTRY], task)
  }
}

/**
 * Tasks by name: a daemon runs them (a module that it imports exports them), and a program schedules them.
 *
 * ```ts
 * export const tasks = new Tasks({ maxRetries: 5 })
 * export const sendMail = tasks.task('send-mail', async (to: string, subject: string) => { … })
 * await sendMail.schedule('joe@example.com', 'hello')
 * ```
 */
export class Tasks extends TaskScheduler {
  readonly [REGISTRY]: Registry

  /** @throws SpooldError TASK_INVALID if an option is wrong */
  constructor(options: TasksOptions = {}) {
    super()
    checkSettings('new Tasks', options, 'registry')
    this[REGISTRY] = new Registry(options, options)
  }

  /**
   * Registers a function as a task.
   *
   * @param name unique among the tasks of a program and of a daemon
   * @returns the function, which also schedules itself
   * @throws SpooldError TASK_INVALID for a bad name or option, and for a name that is taken; the message has both places
   */
  task<Schema extends StandardSchema, Result>(
    name: string,
    options: TaskSettings & Omit<OwnSettings, 'required'> & { readonly schema: Schema },
    fn: (...args: SchemaOutput<Schema>) => Result,
  ): NamedTask<SchemaOutput<Schema>, Result, SchemaInput<Schema>>
  task<Params extends readonly unknown[], Result>(
    name: string,
    options: TaskSettings & OwnSettings,
    fn: (...args: Params) => Result,
  ): NamedTask<Params, Result>
  task<Params extends readonly unknown[], Result>(
    name: string,
    fn: (...args: Params) => Result,
  ): NamedTask<Params, Result>
  task(name: string, second: TaskDefinition | AnyFunction, third?: AnyFunction): NamedTask {
    const [options, fn] = typeof second === 'function' ? [{}, second] : [second, third]
    return this.#add(name, fn, options, placeOfCallOf(this.task))
  }

  /** Registers a function under its own name, or under `options.name`. @returns, @throws as `task` */
  add<Params extends readonly unknown[], Result>(
    fn: (...args: Params) => Result,
    options: AddOptions = {},
  ): NamedTask<Params, Result> {
    const added: unknown = this.#add(options.name ?? fn.name, fn, options, placeOfCallOf(this.add))
    return added as NamedTask<Params, Result>
  }

  /**
   * Adds the tasks of other registries, including tasks that those get later. The other registries keep their own defaults, and
   * inherit what they do not set.
   *
   * @throws SpooldError TASK_INVALID if two tasks have the same name
   */
  use(...others: readonly Tasks[]): this {
    const place = placeOfCallOf(this.use)
    for (const other of others) {
      if (!hasRegistry(other)) throw notTasks(place, other)
      this[REGISTRY].use(other[REGISTRY], place)
    }
    return this
  }

  #add(name: string, fn: AnyFunction | undefined, definition: TaskDefinition, place: string): NamedTask {
    const fault = nameFault(name)
    if (fault !== undefined)
      throw new SpooldError('TASK_INVALID', `a task's name must be ${fault}, got ${describe(name)}`, {
        details: { got: name },
      })
    if (typeof fn !== 'function')
      throw new SpooldError('TASK_INVALID', `task ${name}: expected a function, got ${describe(fn)}`)
    checkSettings(`task ${name}`, definition, 'task')
    const maxRetries = definition.maxRetries ?? this[REGISTRY].inherited('maxRetries')
    checkConcurrency(`task ${name}`, definition, maxRetries)
    const counts = { fewest: definition.required ?? fn.length, most: mostArguments(fn) }
    const entry: TaskEntry = { name, fn, place, definition, registry: this[REGISTRY], ...counts }
    if (entry.fewest > entry.most)
      throw new SpooldError(
        'TASK_INVALID',
        `task ${name}: required must be at most ${fn.length}, the function's parameters, got ${entry.fewest}`,
      )
    const { schema } = definition
    const periodic = periodicOf(`task ${name}`, name, definition, schema === undefined ? entry.fewest : 0)
    if (periodic !== undefined && schema !== undefined) checkPeriodicSchema(`task ${name}`, schema)
    this[REGISTRY].add(entry)
    const task = createTask(fn, entry)
    this[REGISTRY].alias(task, entry)
    return task
  }
}

export function notTasks(place: string, got: unknown): SpooldError {
  return new SpooldError('TASK_INVALID', `${place}: expected Tasks, got ${describe(got)}`)
}
