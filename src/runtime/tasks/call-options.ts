import { describe, SpooldError } from '../../base/errors.js'
import { parseTime } from '../../base/time-text.js'
import type { TaskOptions } from '../../engines/client/request-from.js'
import type { Destination } from '../../engines/client/target.js'

/** When a task starts at the earliest: a Date, epoch seconds, ISO 8601 text, or `+1h30m`. It never starts before. */
export type When = NonNullable<TaskOptions['at']>

/** What holds for one call. */
export interface CallOptions extends Destination {
  /** The priority directory, in digits. Lower runs first. The daemon needs spooler-ordered. */
  readonly priority?: number | string
  /** Your own name for the task, any text: a spool stores it once, even after it has run. Default: a new UUID. */
  readonly id?: string
}

const OPTIONS = ['spooler', 'socket', 'sync', 'priority', 'id']

/**
 * What JavaScript callers may have got wrong: an option that does nothing would be a task at a wrong time or place.
 *
 * @param others what is known besides
 * @throws SpooldError REQUEST_INVALID
 */
export function knownOptions<Options extends CallOptions>(options: Options, ...others: string[]): Options {
  const known = [...OPTIONS, ...others]
  const unknown = Object.keys(options).find(name => !known.includes(name))
  if (unknown === undefined) return options
  const hint = unknown === 'at' ? '; a time is for scheduleAt' : ''
  throw new SpooldError(
    'REQUEST_INVALID',
    `there is no option ${unknown} for a call; expected one of ${known.join(', ')}${hint}`,
    { details: { key: unknown } },
  )
}

/** How a registry, or a batch, is told a time. */
const CALL_AT = 'scheduleAt(TASK, TIME, ...ARGUMENTS)'

/**
 * A task's time is in whole seconds, and it never starts before the given one.
 *
 * @param call how it is called, for those who have mixed up its arguments
 * @throws SpooldError ARGUMENTS_INVALID
 */
export function timeOf(at: When, call = CALL_AT): When {
  const seconds = at instanceof Date ? at.getTime() / 1000 : at
  if (typeof seconds === 'string' && parseTime(seconds) !== undefined) return seconds
  if (typeof seconds === 'number' && Number.isFinite(seconds)) return Math.ceil(seconds)
  throw new SpooldError(
    'ARGUMENTS_INVALID',
    `at must be a valid Date, epoch seconds, ISO 8601 text or +1h30m, got ${at instanceof Date ? 'an invalid Date' : describe(at)}; expected ${call}`,
    { details: { key: 'at', got: at } },
  )
}
