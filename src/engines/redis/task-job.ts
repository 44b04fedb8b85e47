import { SpooldError } from '../../base/errors.js'
import type { BuryReason } from '../../base/task/bury-reasons.js'
import { failureText } from '../../base/task/failure-text.js'
import type { LastRun } from '../../base/task/last-run.js'
import { displayName } from '../../base/task/ref.js'
import { HEADER_BYTES } from '../../formats/protocol/header.js'
import { nameFault, taskNameOf } from '../../formats/protocol/named.js'
import { parseVars, type Vars } from '../../formats/protocol/vars.js'
import type { Past, Runs } from '../verdict.js'
import type { JobJson } from './libraries.js'

/** The largest task: Redis keeps it in memory, and its packet and body pass through that as text. */
export const MAX_TASK_BYTES = 16 * 1024 * 1024
/**
 * BullMQ's jobs without a priority run first, so no priority is this, and 0 is none. BullMQ's largest is one more, but its order is
 * a double, the priority times 2^32 and a counter: from 2^53 on neighbours are equal, and change places.
 */
const LAST = 2_097_151

/** What a job carries: bytes in base64, since JSON has none. */
interface JobData {
  readonly packet: string
  readonly body?: string
}

/** What the engine keeps of a task's runs, in the job's `progress`, which every claim brings along. */
export interface TaskRecord extends Runs {
  readonly past: Past
  /** How the run was cut short that `past` is of, if a master knew. */
  readonly lastRun?: LastRun
  /** When it runs next, once that is another time than it was stored for; epoch ms. */
  readonly dueAtMs?: number
  /** How often in a row nobody wanted it. */
  readonly unwanted?: number
  /** Of a dead letter. */
  readonly reason?: BuryReason
  /** When it failed for the first and for the last time, and how; epoch ms. */
  readonly firstFailureAt?: number
  readonly lastFailureAt?: number
  readonly lastError?: string
  /** By people. It is delayed until it is released, and is due then at the time that it had. */
  readonly isHeld?: boolean
  /** It is held because it is moved to this spool, where it may be already. @see Journey */
  readonly movedTo?: string
  readonly moveKey?: string
  readonly movedAt?: number
  readonly wasHeld?: boolean
}

/** Of a task that has never run. */
export const NEW_RECORD: TaskRecord = { attempts: 0, crashes: 0, policy: {}, past: 'none' }

/** A stored task, as a job has it. */
export interface TaskJob {
  readonly id: string
  readonly vars: Vars
  readonly body: Buffer | undefined
  readonly priority: number | null
  readonly dueAtMs: number
  readonly record: TaskRecord
  readonly json: JobJson
}

/** What BullMQ calls the job: the name of its task. Names that no task can have are not repeated. */
export function jobNameOf(vars: Vars): string {
  const task = taskNameOf(vars)
  return task === undefined || nameFault(displayName(task)) !== undefined ? 'task' : displayName(task)
}

const MAX_ERROR_CHARS = 8192

/** The record after another failed run. */
export function withFailure(record: TaskRecord, runs: Runs, detail: string | undefined): TaskRecord {
  const nowMs = Date.now()
  return {
    ...record,
    ...runs,
    ...{ firstFailureAt: record.firstFailureAt ?? nowMs, lastFailureAt: nowMs },
    ...(detail === undefined ? {} : { lastError: failureText(detail, MAX_ERROR_CHARS) }),
  }
}

export function dataOf(packet: Buffer, body: Buffer | undefined): string {
  const data: JobData = {
    packet: packet.toString('base64'),
    ...(body === undefined || body.length === 0 ? {} : { body: body.toString('base64') }),
  }
  return JSON.stringify(data)
}

/** @returns undefined: the job was not stored by an enqueuer of tasks */
export function taskOf(json: JobJson): TaskJob | undefined {
  const data = dataIn(json.data)
  if (data === undefined) return undefined
  const packet = Buffer.from(data.packet, 'base64')
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  if ('fault' in vars) return undefined
  const record = recordOf(json)
  return {
    id: json.id,
    vars,
    record,
    json,
    body: data.body === undefined ? undefined : Buffer.from(data.body, 'base64'),
    priority: priorityOf(json.opts.priority),
    dueAtMs: record.dueAtMs ?? json.timestamp + (json.opts.delay ?? 0),
  }
}

/**
 * How long before its time a job was pulled: the clock of a machine that promoted it is fast. One without a time is due, however fast
 * the clock of the one that stored it is.
 */
export function earlyMs({ json, record, dueAtMs }: TaskJob, nowMs: number): number {
  const hasTime = record.dueAtMs !== undefined || (json.opts.delay ?? 0) > 0
  return hasTime ? Math.max(0, dueAtMs - nowMs) : 0
}

/** The same record if it has none, as nearly all: in V8, to copy an object without one of its properties is slow. */
export function withoutLastRun(record: TaskRecord): TaskRecord {
  if (record.lastRun === undefined) return record
  const { lastRun: _, ...rest } = record
  return rest
}

export function withoutJourney(record: TaskRecord): TaskRecord {
  const { movedTo: _to, moveKey: _key, movedAt: _at, wasHeld: _was, ...rest } = record
  return rest
}

/** @param text the data of a job */
export function packetIn(text: string): { readonly packet: Buffer; readonly body?: Buffer } | undefined {
  const data = dataIn(text)
  if (data === undefined) return undefined
  const packet = Buffer.from(data.packet, 'base64')
  return data.body === undefined ? { packet } : { packet, body: Buffer.from(data.body, 'base64') }
}

/** @param text the data of a job */
export function bodyIn(text: string): Buffer | undefined {
  return packetIn(text)?.body
}

function dataIn(text: string): JobData | undefined {
  try {
    const data: unknown = JSON.parse(text)
    if (typeof data !== 'object' || data === null || !('packet' in data)) return undefined
    if (typeof data.packet !== 'string') return undefined
    return 'body' in data && typeof data.body === 'string'
      ? { packet: data.packet, body: data.body }
      : { packet: data.packet }
  } catch {
    return undefined
  }
}

export function recordOf({ progress }: Pick<JobJson, 'progress'>): TaskRecord {
  return typeof progress === 'object' ? { ...NEW_RECORD, ...progress } : NEW_RECORD
}

/** @throws SpooldError REQUEST_INVALID */
export function jobPriority(priority: string | undefined): number {
  if (priority === undefined) return LAST
  const number = Number(priority)
  if (number < LAST) return number
  throw new SpooldError(
    'REQUEST_INVALID',
    `priority: a spool on Redis has 0 to ${LAST - 1}, got ${priority}`,
    { details: { key: 'priority', got: priority } },
  )
}

export function priorityOf(jobPriority = 0): number | null {
  return jobPriority === LAST ? null : jobPriority
}
