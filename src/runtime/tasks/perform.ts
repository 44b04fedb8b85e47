import { SpooldError } from '../../base/errors.js'
import { AbortTask } from '../../base/task/answer.js'
import { validated } from './arguments.js'
import { currentTask } from './daemon.js'
import { layersOf, runThrough } from './onion.js'
import type { TaskEntry } from './registry.js'

/**
 * Returns a function that runs a task: the task's function within its middleware. It may throw or reject. Its result is not used.
 *
 * @returns the function, which is to be called while `currentTask` is the task
 */
export function performerOf(entry: TaskEntry): (args: readonly unknown[]) => unknown {
  const perform = functionOf(entry)
  const layers = layersOf(entry.registry, 'run')
  if (layers.length === 0) return perform
  return args => {
    const task = currentTask()
    return task === undefined ? perform(args) : runThrough(layers, entry, task, () => perform(args))
  }
}

function functionOf({ fn, definition, name }: TaskEntry): (args: readonly unknown[]) => unknown {
  const callable = fn as (...args: readonly unknown[]) => unknown
  const { schema } = definition
  if (schema === undefined) return args => callable(...args)
  return args => validated(name, schema, args).then(valid => callable(...valid), giveUp)
}

/** Throws AbortTask for invalid arguments, because no later run could take them, and any other error as it is. */
export function giveUp(error: unknown): never {
  if (error instanceof SpooldError && error.code === 'ARGUMENTS_INVALID') throw new AbortTask(error.message)
  throw error
}
