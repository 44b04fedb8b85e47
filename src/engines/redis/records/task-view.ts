import { printable } from '../../../base/printable.js'
import type { Parked } from '../../../base/task/parked.js'
import { displayName } from '../../../base/task/ref.js'
import { isNamed, taskNameOf } from '../../../formats/protocol/named.js'
import type { Inspection, TaskState, TaskView } from '../../spool/admin/task-view.js'
import { type DeadLetter, failuresIn } from '../../spool/dead-letters.js'
import type { TaskRecord } from '../../spool/records.js'
import { reasonOf } from '../task-job.js'
import type { Peeked } from './peek.js'

const FOREIGN = 'its job has no packet: it was not stored as a task'

/** Returns a job as people see a task. @param nowMs by the clock of Redis */
export function viewOf(job: Peeked, nowMs: number): TaskView {
  const parked = parkedOf(job, nowMs)
  const state = job.place === 'failed' ? 'dead' : parked === undefined ? stateOf(job, nowMs) : 'parked'
  return {
    ...{ ref: job.id, state, priority: job.priority, dueAtMs: job.dueAtMs },
    file: fileOf(job, state),
    ...(state === 'dead' ? { letter: letterOf(job) } : {}),
    ...(state !== 'dead' && isWorthShowing(job) ? { record: recordOf(job) } : {}),
    ...(parked === undefined ? {} : { parked }),
  }
}

function stateOf({ place, packet, record, dueAtMs }: Peeked, nowMs: number): TaskState {
  if (place === 'active') return 'running'
  if (packet === undefined) return 'malformed'
  if (record.isHeld === true) return 'held'
  if (place !== 'delayed' || dueAtMs <= nowMs) return 'due'
  return record.attempts > 0 ? 'retrying' : 'waiting'
}

/** Returns why a task is parked: it was due, and no handler of the daemon that had it knows its name. */
function parkedOf({ place, record, packet, dueAtMs }: Peeked, nowMs: number): Parked | undefined {
  const isPutOff = place === 'delayed' && (record.unwanted ?? 0) > 0 && record.isHeld !== true
  if (!isPutOff || packet === undefined || !isNamed(packet.vars) || dueAtMs <= nowMs) return undefined
  const name = printable(displayName(taskNameOf(packet.vars) ?? ''))
  return { reason: 'unknown-name', detail: `no handler takes ${name}` }
}

function fileOf(job: Peeked, state: TaskState): Inspection {
  const { packet, bodyBytes, storedAtMs, dueAtMs, startedAtMs } = job
  const isRunning = state === 'running'
  return {
    state: isRunning
      ? 'running'
      : packet === undefined
        ? 'malformed'
        : dueAtMs > storedAtMs
          ? 'waiting'
          : 'due',
    bytes: (packet?.bytes ?? 0) + bodyBytes,
    ...{ mtimeMs: storedAtMs, dueAtMs, sinceMs: storedAtMs, mark: 0 },
    vars: packet?.vars,
    bodyOffset: packet?.bytes ?? 0,
    ...(packet === undefined ? { detail: FOREIGN } : {}),
    ...(isRunning && startedAtMs !== undefined ? { startedAtMs } : {}),
  }
}

function letterOf({ id, record, score, finishedAtMs, failedReason, packet }: Peeked): DeadLetter {
  return {
    ref: id,
    reason: reasonOf(record),
    detail: failedReason || (packet === undefined ? FOREIGN : 'Redis has no reason'),
    buriedAt: finishedAtMs ?? score,
    ...failuresIn(record),
    ...{ handlers: [], host: '' },
  }
}

function isWorthShowing({ record }: Peeked): boolean {
  return record.attempts > 0 || record.crashes > 0 || record.movedTo !== undefined
}

function recordOf({ record }: Peeked): TaskRecord {
  const { movedTo, policy } = record
  return {
    ...failuresIn(record),
    ...(Object.keys(policy).length === 0 ? {} : { policy }),
    ...(movedTo === undefined ? {} : { movedTo }),
  }
}
