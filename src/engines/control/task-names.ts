import { hasFields } from '../../base/json-guard.js'
import type { Ref } from '../../base/task/ref.js'
import { isTaskRef } from '../spool/names.js'

/** A daemon's answer to `next` and `later`. */
export interface TaskNames {
  readonly pid: number
  readonly refs: readonly Ref[]
}

/** The most refs in one answer. */
export const MOST_NAMED = 2000
/** Refs that have this many before them are never named. */
export const MOST_REACHED = 50_000

/**
 * Reads a daemon's answer, which is checked because whoever owns the spool can answer with anything.
 *
 * @returns undefined if it is none
 */
export function readTaskNames(value: unknown): TaskNames | undefined {
  if (!hasFields(value, { pid: 'count', tasks: 'texts' }, {})) return undefined
  const { pid, tasks } = value as { readonly pid: number; readonly tasks: readonly string[] }
  return tasks.length <= MOST_NAMED && tasks.every(isTaskRef) ? { pid, refs: tasks } : undefined
}
