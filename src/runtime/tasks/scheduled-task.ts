import type { BegunTask } from '../../base/task/report.js'

/** Where a task is in its life. */
export const TaskStatus = {
  /** Unknown: for a task whose id was scheduled before, so that nothing was stored, and for one whose process has just died. */
  NOT_SET: 0,
  /** Its time has not come. */
  WAITING: 1,
  /** It is due. */
  QUEUED: 2,
  RUNNING: 3,
  SUCCEEDED: 4,
  /** It does not run again. */
  FAILED: 5,
} as const

export type TaskStatus = (typeof TaskStatus)[keyof typeof TaskStatus]

/** A named task that was scheduled, frozen; the same wherever it is seen: returned, in a handler, and in `ls --json`. */
export interface ScheduledTask {
  /** A UUID, unless the caller gave an id. */
  readonly id: string
  readonly status: TaskStatus
  readonly name: string
  readonly queue: string
  /** When it starts at the earliest. */
  readonly at: Date
  readonly maxRetries: number
  /** How many runs it has had. */
  readonly retries: number
  readonly args: readonly unknown[]
  readonly kwargs: Readonly<Record<string, unknown>>
}

const NO_KWARGS = Object.freeze({})

export function freezeTask(
  task: Omit<ScheduledTask, 'kwargs'> & Partial<Pick<ScheduledTask, 'kwargs'>>,
): ScheduledTask {
  const { id, status, name, queue, at, maxRetries, retries, args, kwargs } = task
  return Object.freeze({
    id,
    status,
    name,
    queue,
    at,
    maxRetries,
    retries,
    args: Object.freeze([...args]),
    kwargs: kwargs === undefined ? NO_KWARGS : Object.freeze(kwargs),
  })
}

/** As another process has told of it. */
export function toldTask(
  { atMs, maxRetries, kwargs, ...rest }: BegunTask,
  status: TaskStatus,
): ScheduledTask {
  return freezeTask({
    ...{ ...rest, status, at: new Date(atMs) },
    maxRetries: maxRetries ?? Number.POSITIVE_INFINITY,
    ...(kwargs === undefined ? {} : { kwargs }),
  })
}
