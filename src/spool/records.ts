import { errnoOf } from '../base/errors.js'
import { hasFields } from '../base/json-guard.js'
import { lstatSync, readFileSync, unlinkSync } from '../files/anchored-path.js'
import { type Ref, toFsPath } from '../task/ref.js'
import type { RetryPolicy } from '../task/retry-policy.js'
import type { BuryReason } from './dead-letters.js'
import { isNamedInFull, jsonNameOf } from './record-name.js'
import { RECORDED } from './state-byte.js'
import { hasStateRoom, makeStateRoom, stateRoom, writeWhole } from './state-directory.js'

/** What is known of a task that failed at least once, or that somebody holds back. Times are epoch ms. */
export interface TaskRecord {
  /** Runs that ended in a retry, an error or a crash. */
  readonly attempts: number
  /** Its task, where the record's own name is too short for it. */
  readonly ref?: Ref
  /** Runs that took their process with them. */
  readonly crashes: number
  readonly firstFailureAt?: number
  readonly lastFailureAt?: number
  /** The stack of what was thrown, the reason that the handler gave, or how the process died. */
  readonly lastError?: string
  readonly nextRunAt?: number
  /** The last run that is counted here, by the mtime that its beginning gave the file; epoch ms. */
  readonly countedRun?: number
  /** The file's mtime does not say so: it is another user's, and only its owner may set it. */
  readonly isTimeUnset?: boolean
  /** The last few failures, oldest first. */
  readonly history?: readonly Failure[]
  /** What the handler asked for in place of the options. */
  readonly policy?: Partial<RetryPolicy>
  /** It is to be buried, and could not be yet: it does not run. */
  readonly burial?: { readonly reason: BuryReason; readonly detail: string }
  /** Held back by `spoold hold`: its mtime is far in the future; this was it before. */
  readonly heldMtime?: number
  /** `spoold move` copied it to this path, and did not come to remove it here: it is held, because it may run there. */
  readonly movedTo?: string
  /** Of spoold 0.1.0: the file of this inode ran to SPOOL_OK, but could not be removed: it must not run again. */
  readonly doneInode?: number
}

export interface Failure {
  readonly at: number
  readonly kind: 'retry' | 'error' | 'crash'
  /** One line. */
  readonly error?: string
}

const MAX_ERROR_CHARS = 8192
const MAX_LINE_CHARS = 200
const MAX_HISTORY = 10

/** The records of one spool: `.spoold/records/<path>.json`, written whole or not at all. */
export class Records {
  readonly #spool: string

  /** @param spool its real path, a byte string */
  constructor(spool: string) {
    this.#spool = spool
  }

  /** undefined when there is none, or none that can be read: a task is never refused for its record. */
  read(ref: Ref): TaskRecord | undefined {
    if (!hasStateRoom(this.#spool, 'records')) return undefined
    try {
      const value: unknown = JSON.parse(readFileSync(toFsPath(this.pathOf(ref))))
      return isRecord(value) ? value : undefined
    } catch (error) {
      if (errnoOf(error) === undefined || errnoOf(error) === 'ENOENT') return undefined
      throw error
    }
  }

  /** When the record of a task was written, by the file system's clock; epoch ms. */
  writtenAt(ref: Ref): number {
    return lstatSync(toFsPath(this.pathOf(ref)))?.ctimeMs ?? 0
  }

  write(ref: Ref, record: TaskRecord): void {
    makeStateRoom(this.#spool, 'records', ref)
    const named = isNamedInFull(ref) ? record : { ...record, ref }
    writeWhole(this.pathOf(ref), JSON.stringify(named), { flush: false })
  }

  remove(ref: Ref): void {
    try {
      unlinkSync(toFsPath(this.pathOf(ref)))
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error
    }
  }

  /** A byte string. */
  pathOf(ref: Ref): string {
    return `${stateRoom(this.#spool, 'records')}/${jsonNameOf(ref)}`
  }
}

/** Is the run counted that began when the file got this mtime? Whoever counted it may have died before he could say so in the file. */
export function isCounted(record: TaskRecord | undefined, mtimeMs: number): boolean {
  return record?.countedRun === mtimeMs
}

/**
 * The record that belongs to a file, of those that have its name. One that the state byte does not announce is an older
 * file's, unless it counts the run that this one left.
 */
export function ownRecord(
  record: TaskRecord | undefined,
  { state = 0, mtimeMs }: { readonly state?: number; readonly mtimeMs: number },
): TaskRecord | undefined {
  if (state === 0) return undefined
  return (state & RECORDED) !== 0 || isCounted(record, mtimeMs) ? record : undefined
}

export function isRecord(value: unknown): value is TaskRecord {
  return hasFields(value, { attempts: 'count', crashes: 'count' }, TOLD)
}

const TOLD = {
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
} as const

/** One more failed run. */
export function withFailure(
  before: TaskRecord | undefined,
  failure: {
    readonly kind: Failure['kind']
    readonly nowMs: number
    readonly error?: string
    readonly policy?: Partial<RetryPolicy>
  },
): TaskRecord {
  const { kind, nowMs, error, policy } = failure
  const [line = ''] = (error ?? '').split('\n', 1)
  const entry = { at: nowMs, kind, ...(line === '' ? {} : { error: line.slice(0, MAX_LINE_CHARS) }) }
  return {
    ...before,
    attempts: (before?.attempts ?? 0) + 1,
    crashes: (before?.crashes ?? 0) + (kind === 'crash' ? 1 : 0),
    firstFailureAt: before?.firstFailureAt ?? nowMs,
    lastFailureAt: nowMs,
    ...(error === undefined ? {} : { lastError: error.slice(0, MAX_ERROR_CHARS) }),
    ...(policy === undefined ? {} : { policy: { ...before?.policy, ...policy } }),
    history: [...(before?.history ?? []), entry].slice(-MAX_HISTORY),
  }
}
