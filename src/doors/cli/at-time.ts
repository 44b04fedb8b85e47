import { SpooldError } from '../../base/errors.js'
import { isSeconds, parseTime as parseTimeText } from '../../base/time-text.js'

/** Parses the value of `--at`: epoch seconds. @throws SpooldError USAGE */
export function parseAt(text: string, nowMs = Date.now()): number {
  return parseTime('--at', text, nowMs)
}

/**
 * Parses the value of a flag that takes a point in time.
 *
 * @returns epoch seconds
 * @throws SpooldError USAGE
 */
export function parseTime(flag: string, text: string, nowMs = Date.now()): number {
  const seconds = parseTimeText(text, nowMs)
  if (seconds !== undefined) return seconds
  const hint = isSeconds(text) ? ', which is after the year 9999: are these milliseconds? Give seconds' : ''
  throw new SpooldError(
    'USAGE',
    `${flag}: expected epoch seconds, a date such as '2026-12-24 08:00', or +1h30m, got ${JSON.stringify(text)}${hint}`,
  )
}
