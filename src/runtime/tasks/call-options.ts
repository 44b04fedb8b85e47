import { describe, SpooldError } from '../../base/errors.js'
import { parseTime } from '../../base/time-text.js'
import type { TaskOptions } from '../../engines/client/request-from.js'
import type { Destination } from '../../engines/client/target.js'

/** The time before which a task never starts: a Date, epoch seconds, ISO 8601 text, or `+1h30m`. */
export type When = NonNullable<TaskOptions['at']>

/** The options of one call. */
export interface CallOptions extends Destination {
  /** The priority directory, in digits. Lower runs first. The daemon needs spooler-ordered. */
  readonly priority?: number | string
  /** Your own name for the task, any text: a spool stores it once, even after it has run. Default: a new UUID. */
  readonly id?: string
}

const OPTIONS = ['spooler', 'socket', 'sync', 'priority', 'id']

/**
 * Checks the names of options that JavaScript callers may have got wrong. If an unknown option did nothing, the task would run at
 * a wrong time or place.
 *
 * @param others further options that are known
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

/** The call by which a registry or a batch is told a time, for messages. */
const CALL_AT = 'scheduleAt(TASK, TIME, ...ARGUMENTS)'

/**
 * Returns the time of a task. A number or a Date is rounded up to whole seconds, so that the task never starts before it.
 *
 * @param call the expected call, for callers who have mixed up its arguments
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
