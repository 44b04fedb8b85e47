import { messageOf } from '../../../base/errors.js'
import { cancelledDetail } from '../../../base/task/cancel.js'
import { type Changed, DONE, refused } from '../../spool/admin/change.js'
import { HELD_UNTIL_MS } from '../../spool/spool-file.js'
import type { Change } from '../../task-store.js'
import type { Connection } from '../connection.js'
import { type TaskRecord, withoutJourney } from '../task-job.js'
import type { Peeked } from './peek.js'
import { scoreOf } from './walk.js'

/** A change of a job that does not run: where the job goes, and what it has from then on. */
interface Relocation {
  readonly to: 'delayed' | 'failed'
  /** When the job is due, or was buried; epoch ms. */
  readonly atMs: number
  readonly record: TaskRecord
  readonly failedReason?: string
}

type RestingChange = Exclude<Change, { kind: 'replace' | 'move' }>

/** How often a task that changes during a command is looked at. */
export const TRIES = 5
export const CHANGING = 'it changes all the time'

/**
 * Changes a job that does not run.
 *
 * @param nowMs by the clock of Redis
 * @returns undefined: the job is elsewhere by now, and has to be looked at again
 */
export async function changeJob(
  connection: Connection,
  job: Peeked,
  what: RestingChange,
  nowMs: number,
): Promise<Changed | undefined> {
  try {
    if (job.place === 'active') return { kind: 'running' }
    if (what.kind === 'remove') return await remove(job)
    const next = relocationFor(job, what, nowMs)
    if ('kind' in next) return next
    return (await relocate(connection, job, next)) ? DONE : undefined
  } catch (error) {
    return refused(messageOf(error))
  }
}

/** Removes a job. @returns undefined: it could not be removed, as while a worker has its lock */
export async function remove({ id, queue }: Peeked): Promise<Changed | undefined> {
  return (await queue.remove(id)) === 1 ? DONE : undefined
}

function relocationFor(
  { place, record, packet, dueAtMs }: Peeked,
  what: Exclude<RestingChange, { kind: 'remove' }>,
  nowMs: number,
): Relocation | Changed {
  const isDead = place === 'failed'
  if (packet === undefined) return refused('it is not a task of spoold: nothing could run it')
  if (what.kind === 'requeue') {
    if (!isDead) return refused('it is no dead letter')
    return { to: 'delayed', atMs: nowMs, record: requeued(record, what.keepAttempts, nowMs) }
  }
  if (isDead) return refused('it is a dead letter: requeue it first')
  const { movedTo } = record
  const { isHeld: _held, unwanted: _unwanted, ...rest } = withoutJourney(record)
  switch (what.kind) {
    case 'hold':
      return heldAs(record)
    case 'release':
      if (record.isHeld !== true) return refused('it is not held')
      if (movedTo !== undefined) return refused(onItsWay(movedTo))
      return { to: 'delayed', atMs: dueAtMs, record: rest }
    case 'kick':
      return { to: 'delayed', atMs: nowMs, record: { ...rest, dueAtMs: nowMs } }
    default: {
      const failedReason = cancelledDetail('was not running')
      return { to: 'failed', atMs: nowMs, failedReason, record: { ...rest, reason: 'cancelled' } }
    }
  }
}

/** Returns how a job is held: it is delayed to a time that no clock reaches. */
export function heldAs(record: TaskRecord): Relocation {
  return { to: 'delayed', atMs: HELD_UNTIL_MS[0] ?? 0, record: { ...record, isHeld: true } }
}

function onItsWay(movedTo: string): string {
  return `it is held because a move to ${movedTo} did not end: move it there again, which ends that; or, if it has not arrived, kick it`
}

function requeued(record: TaskRecord, keepAttempts: boolean, nowMs: number): TaskRecord {
  const fresh = { attempts: 0, crashes: 0, policy: {}, past: 'none', dueAtMs: nowMs } as const
  if (!keepAttempts) return fresh
  const { reason: _reason, lastRun: _run, unwanted: _unwanted, ...rest } = record
  return { ...rest, past: 'none', dueAtMs: nowMs }
}

/** Moves a job to another place. @returns false: the job is elsewhere by now, or has changed */
export async function relocate(
  connection: Connection,
  { id, queue, place, recordText }: Peeked,
  { to, atMs, record, failedReason }: Relocation,
): Promise<boolean> {
  const keys = [id, 'wait', 'prioritized', 'delayed', 'failed', 'events'].map(type => queue.key(type))
  const ms = Math.floor(atMs)
  const fields = [
    ...['progress', JSON.stringify(record)],
    ...(failedReason === undefined ? [] : ['failedReason', failedReason, 'finishedOn', ms]),
  ]
  const from = place === 'failed' ? 2 : 1
  const score = to === 'failed' ? ms : scoreOf(ms)
  const moved = await connection.run('relocate', ...keys, id, recordText, from, to, score, to, ...fields)
  return moved === 1
}
