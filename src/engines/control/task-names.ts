import { hasFields } from '../../base/json-guard.js'
import type { Ref } from '../../base/task/ref.js'
import { isTaskRef } from '../spool/names.js'

/** What a daemon answers to `next` and `later`. */
export interface TaskNames {
  readonly pid: number
  readonly refs: readonly Ref[]
}

/** A daemon names no more at once, and none that has so many before it. */
export const MOST_NAMED = 2000
export const MOST_REACHED = 50_000

/** Whoever owns the spool can answer with anything. @returns undefined if it is no such answer */
export function readTaskNames(value: unknown): TaskNames | undefined {
  if (!hasFields(value, { pid: 'count', tasks: 'texts' }, {})) return undefined
  const { pid, tasks } = value as { readonly pid: number; readonly tasks: readonly string[] }
  return tasks.length <= MOST_NAMED && tasks.every(isTaskRef) ? { pid, refs: tasks } : undefined
}
