import { describe, SpooldError } from '../../base/errors.js'
import { type CallOptions, timeOf, type When } from './call-options.js'
import type { RunningTask } from './daemon.js'
import type { Layer, Middleware, TaskCallChanges } from './middleware.js'
import type { Registry, TaskEntry } from './registry.js'
import type { ScheduledTask } from './scheduled-task.js'

/** A task to be scheduled. */
export interface Call {
  readonly entry: TaskEntry
  readonly args: readonly unknown[]
  /** A result of `timeOf`; undefined: now. */
  readonly at: When | undefined
  readonly options: CallOptions
}

/** Returns the middleware functions around the tasks of a registry, the outermost first. Most tasks have none. */
export function layersOf<Kind extends keyof Middleware>(
  registry: Registry,
  kind: Kind,
): ReadonlyArray<Layer<Kind>> {
  let layers: ReadonlyArray<Layer<Kind>> = []
  for (let up: Registry | undefined = registry; up !== undefined; up = up.parent)
    if (up.middleware.length > 0) layers = [...up.middleware.flatMap(each => layerOf(each, kind)), ...layers]
  return layers
}

function layerOf<Kind extends keyof Middleware>(middleware: Middleware, kind: Kind): Array<Layer<Kind>> {
  const layer = middleware[kind]
  return layer === undefined ? [] : [layer as Layer<Kind>]
}

/** Stores a task through the layers of its middleware. @param innermost stores the call, as the layers have changed it */
export async function enqueueThrough(
  [layer, ...inner]: ReadonlyArray<Layer<'enqueue'>>,
  call: Call,
  innermost: (call: Call) => Promise<ScheduledTask>,
): Promise<ScheduledTask> {
  if (layer === undefined) return innermost(call)
  const next = once(call.entry, ({ args = call.args, at, options = call.options }: TaskCallChanges = {}) => {
    const changed = {
      ...call,
      args,
      options,
      at: at === undefined ? call.at : timeOf(at, 'next({ at: TIME })'),
    }
    return enqueueThrough(inner, changed, innermost)
  })
  const { args, at, options } = call
  const task: unknown = await layer(Object.freeze({ name: call.entry.name, args, at, options }), next)
  if (typeof task === 'object' && task !== null && 'id' in task) return task as ScheduledTask
  throw new SpooldError(
    'TASK_INVALID',
    `middleware of task ${call.entry.name}: enqueue must return a task, such as what next() resolves to, got ${describe(task)}`,
  )
}

/** Runs a task through the layers of its middleware. @param innermost calls the function */
export async function runThrough(
  [layer, ...inner]: ReadonlyArray<Layer<'run'>>,
  entry: TaskEntry,
  task: RunningTask,
  innermost: () => unknown,
): Promise<unknown> {
  if (layer === undefined) return innermost()
  return layer(
    task,
    once(entry, () => runThrough(inner, entry, task, innermost)),
  )
}

/**
 * Returns the function with a check that it is called once, because a second call would store, or run, the task a second time.
 */
function once<Args extends readonly unknown[], Result>(
  { name }: TaskEntry,
  fn: (...args: Args) => Promise<Result>,
): (...args: Args) => Promise<Result> {
  let isCalled = false
  return async (...args) => {
    if (isCalled) throw new SpooldError('TASK_INVALID', `middleware of task ${name} called next() twice`)
    isCalled = true
    return fn(...args)
  }
}
