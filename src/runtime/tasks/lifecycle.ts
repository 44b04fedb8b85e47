import { CAUSE } from '../../base/task/failure-text.js'
import type { BegunTask, RunEnd } from '../../base/task/report.js'
import { LAST_ERROR } from '../../base/task/terms.js'
import type { Death } from '../../engines/claims.js'
import type { EventHub, LifecycleEvents, TaskEvent } from './event-hub.js'
import { type ScheduledTask, TaskStatus, toldTask } from './scheduled-task.js'

/** The namespace of an application that has none of its own, and of the tasks that a daemon runs. */
export const DEFAULT_NAMESPACE = 'default'

/** The name of the error of a run whose process has died. */
const WORKER_DIED = 'WorkerDied'

/** Emits one event. It has the namespace of the application unless the payload has another one. */
export type Tell = <Name extends keyof LifecycleEvents>(
  name: Name,
  payload: Omit<LifecycleEvents[Name], 'namespace'> & { readonly namespace?: string },
) => void

/** Returns a function that emits events to each of the hubs. */
export function tellerOf(
  namespace: string,
  hubs: readonly EventHub[],
  failed: (message: string) => void,
): Tell {
  return (name, payload) => {
    const event = Object.freeze({ namespace, ...payload }) as LifecycleEvents[typeof name]
    for (const hub of hubs) hub.emit(name, event, failed)
  }
}

/** Emits `task-started`. @param worker the name of the worker */
export function tellBegun(tell: Tell, worker: string, begun: BegunTask): void {
  tell('task-started', { worker, ...namespaceOf(begun), task: toldTask(begun, TaskStatus.RUNNING) })
}

/** Emits the events at the end of a run: `task-retried` or `task-failed` if it was not a success, and `task-finished` last. */
export function tellEnded(tell: Tell, worker: string, begun: BegunTask, end: RunEnd): void {
  tell('task-finished', tellFailure(tell, worker, begun, end))
}

/**
 * Emits `task-retried` or `task-failed` if a run was not a success, and nothing else. Call it for a run whose `task-finished` was
 * emitted before its result was known.
 *
 * @returns the payload of `task-finished`
 */
export function tellFailure(
  tell: Tell,
  worker: string,
  begun: BegunTask,
  end: RunEnd,
): Omit<TaskEvent, 'namespace'> {
  const event = { worker, ...namespaceOf(begun), task: endedTask(begun, end) }
  const { status } = event.task
  if (status === TaskStatus.FAILED) tell('task-failed', { ...event, error: errorOf(end) })
  else if (status !== TaskStatus.SUCCEEDED) tell('task-retried', { ...event, error: errorOf(end) })
  return event
}

/** Emits `task-finished` for a run whose process has ended. Whether that counts is known once another process claims the task. */
export function tellLost(tell: Tell, worker: string, begun: BegunTask): void {
  tell('task-finished', { worker, ...namespaceOf(begun), task: toldTask(begun, TaskStatus.NOT_SET) })
}

function namespaceOf({ namespace }: BegunTask): Partial<Pick<TaskEvent, 'namespace'>> {
  return namespace === undefined ? {} : { namespace }
}

/** Returns the end of a run whose process has died, if that counts. */
export function endOf({ cause, atMs }: Death): RunEnd {
  return { kind: atMs === undefined ? 'buried' : 'error', atMs, detail: `${WORKER_DIED}: ${cause}` }
}

function endedTask(begun: BegunTask, { kind, atMs = Date.now() }: RunEnd): ScheduledTask {
  switch (kind) {
    case 'ok':
      return toldTask(begun, TaskStatus.SUCCEEDED)
    case 'buried':
    case 'unsettled':
      return toldTask(begun, TaskStatus.FAILED)
    case 'untouched': // the run was interrupted, and that does not count
      return toldTask(begun, TaskStatus.QUEUED)
    default: {
      const again = { ...begun, atMs, retries: begun.retries + 1 }
      return toldTask(again, atMs > Date.now() ? TaskStatus.WAITING : TaskStatus.QUEUED)
    }
  }
}

/** Returns what was thrown, as far as it can be sent between processes: its class is only a name, and its stack a text. */
function errorOf({ detail = 'its worker has ended' }: RunEnd): Error {
  return errorFrom(detail.split(LAST_ERROR).at(-1) ?? detail)
}

function errorFrom(whole: string): Error {
  const [text = '', ...causes] = whole.split(CAUSE)
  const [first = ''] = text.split('\n', 1)
  const [, name, message = first] = /^([\w.]*(?:Error|Exception|WorkerDied))(?:: (.*))?$/.exec(first) ?? []
  const error = new Error(message, causes.length === 0 ? {} : { cause: errorFrom(causes.join(CAUSE)) })
  if (name !== undefined) error.name = name
  error.stack = text
  return error
}
