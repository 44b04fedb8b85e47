import { DEFAULT_QUEUE } from '../../../formats/protocol/named.js'
import type { PeriodicSettings } from '../../tasks/periodic.js'

/** A named task that the code of a host registered. */
export interface DeclaredTask {
  readonly name: string
  /** -1: no limit. */
  readonly maxRetries: number
  /** How many run at a time; null: no limit. */
  readonly maxConcurrency: number | null
  readonly queue: string
  /** Not checked; null: it is not periodic. */
  readonly periodic: PeriodicSettings | null
  /** Where it is registered, for people. */
  readonly place: string
  /** It may run beside others, if the configuration allows it. */
  readonly isAsync: boolean
}

/** @param text a JSON array, or nothing; from our own code */
export function declaredTasks(text: string): readonly DeclaredTask[] {
  const declared: unknown = text === '' ? [] : JSON.parse(text)
  if (!Array.isArray(declared)) return []
  return declared.map(
    ({
      name,
      maxRetries,
      maxConcurrency = null,
      queue = DEFAULT_QUEUE,
      periodic = null,
      place,
      isAsync = false,
    }: DeclaredTask) => ({
      ...{ name, maxRetries, maxConcurrency },
      ...{ queue, periodic, place, isAsync },
    }),
  )
}
