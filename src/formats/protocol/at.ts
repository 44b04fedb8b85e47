import { describe, SpooldError } from '../../base/errors.js'
import { isSeconds, LAST_SECOND, parseTime } from '../../base/time-text.js'

/** When a task is due, as its key `at` says it. */
interface At {
  /** Epoch seconds, with their fraction; undefined: at once. */
  readonly seconds: number | undefined
  /** The text to be stored. uWSGI and spoold read only numbers in a packet. */
  readonly text: string
}

/**
 * Reads the key `at` of a task, whoever gives it. A number stays as it was written; any other text that says a time becomes a
 * number. Empty text means at once.
 *
 * @throws SpooldError REQUEST_INVALID
 */
export function readAt(at: number | Date | string): At {
  if (at === '') return { seconds: undefined, text: '' }
  const seconds = typeof at === 'number' ? at : at instanceof Date ? at.getTime() / 1000 : parseTime(at)
  if (seconds === undefined || !(Math.abs(seconds) <= LAST_SECOND)) throw refusalOf(at)
  const text = typeof at === 'string' && isSeconds(at) ? at : String(seconds)
  return { seconds: seconds >= 1 ? seconds : undefined, text }
}

function refusalOf(at: number | Date | string): SpooldError {
  const isLate = at instanceof Date ? Number.isFinite(at.getTime()) : isSeconds(String(at))
  const hint = isLate
    ? `, which is after the year 9999${at instanceof Date ? '' : ': are these milliseconds? Give seconds, or a Date'}`
    : ''
  return new SpooldError(
    'REQUEST_INVALID',
    `at must be epoch seconds, a Date, an ISO 8601 date, or +1h30m from now, got ${describe(at)}${hint}`,
    { details: { key: 'at', got: at } },
  )
}
