import type { BegunTask } from '../../base/task/report.js'

/** Where a task is in its life. */
export const TaskStatus = {
  /** The status is unknown: the task's id was scheduled before, so that nothing was stored, or its process has just died. */
  NOT_SET: 0,
  /** The task's time has not come. */
  WAITING: 1,
  /** The task is due. */
  QUEUED: 2,
  RUNNING: 3,
  SUCCEEDED: 4,
  /** The task has failed, and does not run again. */
  FAILED: 5,
} as const

export type TaskStatus = (typeof TaskStatus)[keyof typeof TaskStatus]

/** A named task that was scheduled, frozen. It looks the same wherever it is seen: returned, in a handler, and in `ls --json`. */
export interface ScheduledTask {
  /** A UUID, unless the caller gave an id. */
  readonly id: string
  readonly status: TaskStatus
  readonly name: string
  readonly queue: string
  /** The earliest start of the task. */
  readonly at: Date
  readonly maxRetries: number
  /** How many runs the task has had. */
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

/** Returns a task from the data that another process has sent. */
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
