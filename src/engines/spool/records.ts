import { hasFields } from '../../base/json-guard.js'
import { failureLine, failureText } from '../../base/task/failure-text.js'
import type { BuryReason } from '../../base/task/outcome.js'
import { type Ref, toFsPath } from '../../base/task/ref.js'
import type { RetryPolicy } from '../../base/task/terms.js'
import { lstatSync } from '../../system/files/anchored-path.js'
import type { Failed, Runs } from '../contracts/verdict.js'
import { filesInRoom } from './scan.js'
import { RECORDED } from './state-byte.js'
import {
  hasStateRoom,
  isNamedInFull,
  jsonNameOf,
  makeStateRoom,
  readJson,
  removeIfThere,
  stateRoom,
  writeWhole,
} from './state-directory.js'

/** The record of a task that failed at least once, or that is held. Times are epoch ms. */
export interface TaskRecord {
  /** Runs that ended in a retry, an error or a crash. */
  readonly attempts: number
  /** The task, if its name is too long for the record's file name. */
  readonly ref?: Ref
  /** Runs that crashed their process. */
  readonly crashes: number
  readonly firstFailureAt?: number
  readonly lastFailureAt?: number
  /** The stack of the thrown error, the handler's reason, or how the process died. */
  readonly lastError?: string
  readonly nextRunAt?: number
  /** Identifies the last run counted here: the mtime that the file got when that run began. */
  readonly countedRun?: number
  /** True if the file's mtime is not `nextRunAt`: another user owns the file, or the task is held. */
  readonly isTimeUnset?: boolean
  /** The last few failures, oldest first. */
  readonly history?: readonly Failure[]
  /** The retry policy requested by the handler, which overrides the options. */
  readonly policy?: Partial<RetryPolicy>
  /** The task has to be buried, which has failed so far. It does not run. */
  readonly burial?: { readonly reason: BuryReason; readonly detail: string }
  /** Held by `spoold hold`: the mtime is far in the future, and this is the one from before. */
  readonly heldMtime?: number
  /** The spool to which `spoold move` takes the task, where it may be already. The task is held meanwhile. */
  readonly movedTo?: string
  /** The key by which that spool knows the task. */
  readonly moveKey?: string
  readonly movedAt?: number
  /** True if the task was held before the move. */
  readonly wasHeld?: boolean
}

export interface Failure {
  readonly at: number
  readonly kind: 'retry' | 'error' | 'crash'
  /** The first line of the error. */
  readonly error?: string
}

const MAX_ERROR_CHARS = 8192
const MAX_LINE_CHARS = 200
const MAX_HISTORY = 10

/** The records of one spool: `.spoold/records/<path>.json`, written atomically. */
export class Records {
  readonly #spool: string

  /** @param spool its real path, a byte string */
  constructor(spool: string) {
    this.#spool = spool
  }

  /** Returns the record; undefined if there is no valid one: a task is never refused because of a broken record. */
  read(ref: Ref): TaskRecord | undefined {
    const value = hasStateRoom(this.#spool, 'records') ? readJson(this.pathOf(ref)) : undefined
    return isRecord(value) ? value : undefined
  }

  /**
   * Returns the record, if it belongs to the file that has this state byte and mtime. A record that the byte does not announce
   * belongs to an earlier file of the same name, unless it counts this file's last run.
   */
  of(ref: Ref, state: number, mtimeMs: number): TaskRecord | undefined {
    if (state === 0) return undefined
    const record = this.read(ref)
    return (state & RECORDED) !== 0 || isCounted(record, mtimeMs) ? record : undefined
  }

  /** Returns when the task's record was written, on the file system's clock; epoch ms; 0 if there is none. */
  writtenAt(ref: Ref): number {
    return lstatSync(toFsPath(this.pathOf(ref)))?.ctimeMs ?? 0
  }

  write(ref: Ref, record: TaskRecord): void {
    makeStateRoom(this.#spool, 'records', ref)
    const named = isNamedInFull(ref) ? record : { ...record, ref }
    writeWhole(this.pathOf(ref), JSON.stringify(named), { flush: false })
  }

  remove(ref: Ref): void {
    removeIfThere(this.pathOf(ref))
  }

  /** A byte string. */
  pathOf(ref: Ref): string {
    return `${stateRoom(this.#spool, 'records')}/${jsonNameOf(ref)}`
  }
}

/** Yields the names of a spool's records, below `.spoold/records`. */
export async function* recordNames(spool: string): AsyncGenerator<string> {
  for await (const name of filesInRoom(spool, 'records')) if (name.endsWith('.json')) yield name
}

/** Yields the tasks that have failed or are held, by the names of their records. Those whose names are too long are left out. */
export async function* recordedRefs(spool: string): AsyncGenerator<Ref> {
  for await (const name of recordNames(spool)) yield name.slice(0, -'.json'.length)
}

/**
 * True if the record already counts the run that began when the file got this mtime. The process that counted that run may have
 * died before it updated the file.
 */
export function isCounted(record: TaskRecord | undefined, mtimeMs: number): boolean {
  return record?.countedRun === mtimeMs
}

export function isRecord(value: unknown): value is TaskRecord {
  return hasFields(value, { attempts: 'count', crashes: 'count' }, OPTIONAL)
}

const OPTIONAL = {
  ref: 'text',
  firstFailureAt: 'time',
  lastFailureAt: 'time',
  lastError: 'text',
  nextRunAt: 'time',
  isTimeUnset: 'flag',
  history: 'objects',
  policy: 'object',
  burial: 'object',
  heldMtime: 'time',
  countedRun: 'time',
  movedTo: 'text',
  moveKey: 'text',
  movedAt: 'time',
  wasHeld: 'flag',
} as const

/** Returns the record with a failed run added. */
export function withFailure(
  before: TaskRecord | undefined,
  { attempts, crashes, policy }: Runs,
  { kind, error }: Failed,
  nowMs: number,
): TaskRecord {
  const line = failureLine(error ?? '')
  const entry = { at: nowMs, kind, ...(line === '' ? {} : { error: line.slice(0, MAX_LINE_CHARS) }) }
  return {
    ...before,
    ...{ attempts, crashes },
    firstFailureAt: before?.firstFailureAt ?? nowMs,
    lastFailureAt: nowMs,
    ...(error === undefined ? {} : { lastError: failureText(error, MAX_ERROR_CHARS) }),
    ...(Object.keys(policy).length === 0 ? {} : { policy }),
    history: [...(before?.history ?? []), entry].slice(-MAX_HISTORY),
  }
}
