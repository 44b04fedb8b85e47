import { cutPrintable, printable } from '../../../base/printable.js'
import { failureLine } from '../../../base/task/failure-text.js'
import { baseName, displayName, type Ref } from '../../../base/task/ref.js'
import {
  arrivedMsOf,
  type TaskState,
  type TaskView,
  taskPriority,
} from '../../../engines/spool/admin/task-view.js'
import { deadNameOf } from '../../../engines/spool/dead-letters.js'
import { isNamed, TASK_KEY, taskNameOf } from '../../../formats/protocol/named.js'
import { type Vars, valuesOf } from '../../../formats/protocol/vars.js'

/** A task as a listing shows it. */
export interface TaskRow {
  readonly ref: Ref
  /** The name of the task file, for people. */
  readonly name: string
  readonly priority: number | null
  readonly state: TaskState
  /** The name of a named task. */
  readonly kind: string | null
  readonly dueAtMs: number
  readonly arrivedMs: number | null
  readonly bytes: number
  readonly attempts: number
  readonly crashes: number
  readonly startedAtMs: number | null
  /** Null unless the task is a dead letter. The same for `reason`. */
  readonly buriedAtMs: number | null
  readonly reason: string | null
  /** Why the task is parked. Null: it is not. */
  readonly parked: string | null
  /** The beginning of the keys and values. Null: the file is not a packet, or the viewer may not read them. */
  readonly summary: string | null
  /** The first line of the last error, or of why the task is dead or malformed. Null: none, or the viewer may not read it. */
  readonly error: string | null
}

const LONGEST_LINE = 300
const LONGEST_SUMMARY = 120

/** @param mayReadPayload decides about errors, too, because they quote what a handler was given */
export function taskRow(task: TaskView, mayReadPayload: boolean, nowMs: number): TaskRow {
  const { ref, state, dueAtMs, file, record, letter } = task
  const { attempts = 0, crashes = 0, lastError } = letter ?? record ?? {}
  const path = deadNameOf(ref) ?? ref
  const kind = kindOf(task, mayReadPayload)
  const why = lastError ?? letter?.detail ?? file.detail
  return {
    ref,
    name: printable(displayName(baseName(path))),
    priority: taskPriority(task),
    state,
    kind,
    dueAtMs,
    arrivedMs: arrivedMsOf(task, nowMs) ?? null,
    bytes: file.bytes,
    attempts,
    crashes,
    startedAtMs: file.startedAtMs ?? null,
    buriedAtMs: letter?.buriedAt ?? null,
    reason: letter?.reason ?? null,
    parked: task.parked?.detail ?? null,
    summary: mayReadPayload && file.vars !== undefined ? summaryOf(file.vars, kind) : null,
    error: mayReadPayload && why !== undefined ? printable(failureLine(why).slice(0, LONGEST_LINE)) : null,
  }
}

/**
 * Returns the name of a named task. For viewers who may not read payloads, the packet has nothing but that name in it, so
 * `isNamed` cannot tell.
 */
function kindOf({ file: { vars } }: TaskView, mayReadPayload: boolean): string | null {
  if (vars === undefined || (mayReadPayload && !isNamed(vars))) return null
  const name = taskNameOf(vars)
  return name === undefined ? null : printable(displayName(name))
}

/** Returns `to=joe, subject=Hello`, without the name of a named task, which is shown beside it. */
function summaryOf(vars: Vars, kind: string | null): string {
  const shown = valuesOf(vars).filter(({ key }) => kind === null || key !== TASK_KEY)
  const pairs = shown.map(({ key, value }) => `${key}=${value.slice(0, LONGEST_SUMMARY)}`)
  return cutPrintable(printable(displayName(pairs.join(', '))), LONGEST_SUMMARY)
}
