import { SpooldError } from '../../base/errors.js'
import { type FieldKind, hasFields } from '../../base/json-guard.js'
import { failureText } from '../../base/task/failure-text.js'
import type { LastRun } from '../../base/task/last-run.js'
import { BURY_REASONS, type BuryReason } from '../../base/task/outcome.js'
import { displayName } from '../../base/task/ref.js'
import { HEADER_BYTES, modifier1Of, packetBytesOf, SPOOL_MODIFIER } from '../../formats/protocol/header.js'
import { nameFault, taskNameOf } from '../../formats/protocol/named.js'
import { parseVars, type Vars } from '../../formats/protocol/vars.js'
import { type Again, type Burial, PASTS, type Past, type Runs } from '../contracts/verdict.js'
import type { JobJson } from './libraries.js'

/** The maximum size of a task, because Redis keeps it in memory, and its packet and body pass through that as text. */
export const MAX_TASK_BYTES = 16 * 1024 * 1024
/**
 * The job priority of a task without a priority, which runs last; BullMQ counts 0 as no priority, and runs it first. BullMQ's
 * largest priority is one more, but its order is a double, the priority times 2^32 plus a counter: from 2^53 on neighbours are
 * equal, and change places.
 */
const LAST = 2_097_151

/** A task whose name no handler here knows is offered again, to any daemon, after the frequency, then twice that, up to this. */
export const UNWANTED_CAP_MS = 300_000

/** What a job carries: bytes in base64, because JSON has none. */
interface JobData {
  readonly packet: string
  readonly body?: string
}

/** What the engine keeps of a task's runs: it is in the job's `progress`, which every claim brings along. */
export interface TaskRecord extends Runs {
  readonly past: Past
  /** How the run that left `past` was cut short, if a master knew. */
  readonly lastRun?: LastRun
  /** When the task runs next, once that differs from the time for which it was stored; epoch ms. */
  readonly dueAtMs?: number
  /** How often in a row no handler took the task. */
  readonly unwanted?: number
  /** The reason of a dead letter. */
  readonly reason?: BuryReason
  /** When the task failed for the first and for the last time, and how; epoch ms. */
  readonly firstFailureAt?: number
  readonly lastFailureAt?: number
  readonly lastError?: string
  /** True if the task is held. It is delayed until it is released, and is then due at the time that it had. */
  readonly isHeld?: boolean
  /** The spool that the task is being moved to, where it may be already. It is held for that. @see whyNoJourney */
  readonly movedTo?: string
  readonly moveKey?: string
  readonly movedAt?: number
  readonly wasHeld?: boolean
}

/** The record of a task that has never run. */
export const NEW_RECORD: TaskRecord = { attempts: 0, crashes: 0, policy: {}, past: 'none' }

/** A stored task, as its job has it. */
export interface TaskJob {
  readonly id: string
  readonly vars: Vars
  readonly body: Buffer | undefined
  readonly priority: number | null
  readonly dueAtMs: number
  readonly record: TaskRecord
  readonly json: JobJson
}

/** Returns BullMQ's name of the job: the name of its task, or `task` if that is no valid name. */
export function jobNameOf(vars: Vars): string {
  const task = taskNameOf(vars)
  return task === undefined || nameFault(displayName(task)) !== undefined ? 'task' : displayName(task)
}

const MAX_ERROR_CHARS = 8192

/** Returns the record after a verdict. If a run led to the verdict, the record notes its failure. */
export function recordAfter(record: TaskRecord, { runs, failed }: Burial | Again): TaskRecord {
  if (failed === undefined) return { ...record, ...runs }
  const nowMs = Date.now()
  const { error } = failed
  return {
    ...record,
    ...runs,
    ...{ firstFailureAt: record.firstFailureAt ?? nowMs, lastFailureAt: nowMs },
    ...(error === undefined ? {} : { lastError: failureText(error, MAX_ERROR_CHARS) }),
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
  const vars = varsIn(Buffer.from(data.packet, 'base64'))
  if (vars === undefined) return undefined
  const record = recordOf(json)
  const { priority, delay = 0 } = optionsOf(json.opts)
  return {
    id: json.id,
    vars,
    record,
    json,
    body: data.body === undefined ? undefined : Buffer.from(data.body, 'base64'),
    priority: priorityOf(priority),
    dueAtMs: record.dueAtMs ?? json.timestamp + delay,
  }
}

/**
 * Returns how long before its time a job was pulled, which happens if the clock of a machine that promoted it is fast. A job
 * without a time is due, however fast the clock of the machine that stored it is.
 */
export function earlyMs({ json, record, dueAtMs }: TaskJob, nowMs: number): number {
  const hasTime = record.dueAtMs !== undefined || (optionsOf(json.opts).delay ?? 0) > 0
  return hasTime ? Math.max(0, dueAtMs - nowMs) : 0
}

/**
 * Returns the record without `lastRun`; the same object if it has none, as nearly all, because V8 copies an object without one of
 * its properties slowly.
 */
export function withoutLastRun(record: TaskRecord): TaskRecord {
  if (record.lastRun === undefined) return record
  const { lastRun: _, ...rest } = record
  return rest
}

export function withoutJourney(record: TaskRecord): TaskRecord {
  const { movedTo: _to, moveKey: _key, movedAt: _at, wasHeld: _was, ...rest } = record
  return rest
}

/** @returns undefined: this is no packet as in a spool file, whole and without more */
export function varsIn(packet: Buffer): Vars | undefined {
  const isWhole = packet.length >= HEADER_BYTES && packetBytesOf(packet) === packet.length
  if (!isWhole || modifier1Of(packet) !== SPOOL_MODIFIER) return undefined
  const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
  return 'fault' in vars ? undefined : vars
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
  const data = jsonIn(text)
  if (typeof data !== 'object' || data === null || !('packet' in data)) return undefined
  if (typeof data.packet !== 'string') return undefined
  return 'body' in data && typeof data.body === 'string'
    ? { packet: data.packet, body: data.body }
    : { packet: data.packet }
}

/** Returns the record in a job's progress. Progress of another form was written by somebody else, and says nothing of runs. */
export function recordOf({ progress }: { readonly progress?: unknown }): TaskRecord {
  if (!hasFields(progress, {}, RECORD)) return NEW_RECORD
  const record = { ...NEW_RECORD, ...(progress as Partial<TaskRecord>) }
  return PASTS.includes(record.past) ? record : NEW_RECORD
}

/** Returns why a task was buried. */
export function reasonOf({ reason = 'unknown' }: TaskRecord): BuryReason {
  return BURY_REASONS.includes(reason) ? reason : 'unknown'
}

const RECORD: Readonly<Record<keyof TaskRecord, FieldKind>> = {
  ...{
    past: 'text',
    reason: 'text',
    attempts: 'count',
    crashes: 'count',
    policy: 'object',
    lastRun: 'object',
    dueAtMs: 'time',
  },
  ...{ unwanted: 'count', firstFailureAt: 'time', lastFailureAt: 'time', lastError: 'text' },
  ...{ isHeld: 'flag', movedTo: 'text', moveKey: 'text', movedAt: 'time', wasHeld: 'flag' },
}

/** Returns the options of a job that matter here, as far as they are what BullMQ writes. */
export function optionsOf(opts: unknown): { readonly priority?: number; readonly delay?: number } {
  const isRight = hasFields(opts, {}, { priority: 'count', delay: 'time' })
  return isRight ? (opts as { readonly priority?: number; readonly delay?: number }) : {}
}

/** @returns undefined if the text is no JSON: whoever may write to Redis can store anything */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns the job priority of a task. @throws SpooldError REQUEST_INVALID */
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
