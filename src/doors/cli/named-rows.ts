import { baseName, displayName } from '../../base/task/ref.js'
import type { TaskState, TaskView } from '../../engines/spool/admin/task-view.js'
import {
  argumentsOf,
  DEFAULT_QUEUE,
  ID_KEY,
  isNamed,
  QUEUE_KEY,
  taskNameOf,
} from '../../formats/protocol/named.js'
import { lastValue, type Vars } from '../../formats/protocol/vars.js'
import { isoTime } from './render.js'

/** The numbers of `TaskStatus` (docs/tasks.md). */
const STATUS = {
  waiting: 1,
  retrying: 1,
  held: 1,
  due: 2,
  parked: 2,
  running: 3,
  dead: 5,
  incomplete: 0,
  malformed: 0,
  unreadable: 0,
} as const satisfies Record<TaskState, number>

/**
 * Returns a named task in the shape that `schedule` returns. The limit of retries is null, because only the task's registry knows
 * it. Arguments are null if they are invalid, or in a body that was not read.
 *
 * @returns undefined for a dictionary
 */
export function namedTaskOf(
  { ref, state, dueAtMs, record, letter }: TaskView,
  vars: Vars | undefined,
  readBody: () => Uint8Array | undefined = () => undefined,
): object | undefined {
  if (vars === undefined || !isNamed(vars)) return undefined
  const textOf = (key: string) => displayName(lastValue(vars, key) ?? '')
  return {
    id: textOf(ID_KEY) || displayName(baseName(ref)),
    status: STATUS[state],
    name: displayName(taskNameOf(vars) ?? ''),
    queue: textOf(QUEUE_KEY) || DEFAULT_QUEUE,
    at: isoTime(dueAtMs),
    maxRetries: null,
    retries: (letter ?? record)?.attempts ?? 0,
    ...knownArguments(vars, readBody),
  }
}

function knownArguments(vars: Vars, readBody: () => Uint8Array | undefined): object {
  try {
    const { args, kwargs = {} } = argumentsOf(vars, readBody)
    return { args, kwargs }
  } catch {
    return { args: null, kwargs: null }
  }
}
