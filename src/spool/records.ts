import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { errnoOf } from '../base/errors.js'
import { type Ref, toFsPath } from '../task/ref.js'
import { STATE_DIRECTORY } from './file-name.js'

/** What is known of a task that failed at least once. Times are epoch ms. */
export interface TaskRecord {
  /** Runs that ended in a retry, an error or a crash. */
  readonly attempts: number
  /** Runs that took their process with them. */
  readonly crashes: number
  readonly firstFailureAt: number
  readonly lastFailureAt: number
  readonly lastError?: string
  readonly nextRunAt?: number
  /** The file of this inode ran to SPOOL_OK, but could not be removed: it must not run again. */
  readonly doneInode?: number
}

const NAME_BYTES = 200
const MAX_ERROR_CHARS = 8192

/** The records of one spool: `.spoold/records/<path>.json`, written whole or not at all. */
export class Records {
  readonly #root: string

  constructor(spool: string) {
    this.#root = join(spool, STATE_DIRECTORY, 'records')
  }

  /** undefined when there is none, or none that can be read: a task is never refused for its record. */
  read(ref: Ref): TaskRecord | undefined {
    try {
      const value: unknown = JSON.parse(readFileSync(this.#pathOf(ref), 'utf8'))
      return isRecord(value) ? value : undefined
    } catch (error) {
      if (errnoOf(error) === undefined || errnoOf(error) === 'ENOENT') return undefined
      throw error
    }
  }

  write(ref: Ref, record: TaskRecord): void {
    const path = this.#pathOf(ref)
    const unfinished = Buffer.concat([Buffer.from(path), Buffer.from('.tmp')])
    const text = JSON.stringify(record)
    try {
      writeFileSync(unfinished, text, { mode: 0o600 })
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error
      mkdirSync(dirname(path.toString('latin1')), { recursive: true, mode: 0o700 })
      writeFileSync(unfinished, text, { mode: 0o600 })
    }
    renameSync(unfinished, path)
  }

  remove(ref: Ref): void {
    rmSync(this.#pathOf(ref), { force: true })
  }

  #pathOf(ref: Ref): Buffer {
    const name = ref.length <= NAME_BYTES ? ref : createHash('sha1').update(ref, 'latin1').digest('hex')
    return Buffer.from(toFsPath(`${this.#root}/${name}.json`))
  }
}

function isRecord(value: unknown): value is TaskRecord {
  return (
    typeof value === 'object' && value !== null && 'attempts' in value && Number.isInteger(value.attempts)
  )
}

/** One more failed run; `crashes` of it, two when an earlier one is only known by the second. */
export function withFailure(
  before: TaskRecord | undefined,
  failure: { nowMs: number; crashes: number; error?: string; nextRunAt: number },
): TaskRecord {
  const { nowMs, crashes, error, nextRunAt } = failure
  return {
    attempts: (before?.attempts ?? 0) + Math.max(1, crashes),
    crashes: (before?.crashes ?? 0) + crashes,
    firstFailureAt: before?.firstFailureAt ?? nowMs,
    lastFailureAt: nowMs,
    ...(error === undefined ? {} : { lastError: error.slice(0, MAX_ERROR_CHARS) }),
    nextRunAt,
  }
}

/** After its first crash a task runs again at once, then after 1 s, 2 s, 4 s, … up to `capMs`. */
export function crashDelayMs(crashes: number, capMs: number): number {
  return crashes <= 1 ? 0 : Math.min(1000 * 2 ** (crashes - 2), capMs)
}
