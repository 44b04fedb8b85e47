import { SpooldError } from '../base/errors.js'
import { isSeconds, parseTime } from '../base/time-text.js'

/**
 * Parses the value of `--at`.
 *
 * @returns epoch seconds
 * @throws SpooldError USAGE
 */
export function parseAt(text: string, nowMs = Date.now()): number {
  const seconds = parseTime(text, nowMs)
  if (seconds !== undefined) return seconds
  const hint = isSeconds(text) ? ', which is after the year 9999: are these milliseconds? Give seconds' : ''
  throw new SpooldError(
    'USAGE',
    `--at: expected epoch seconds, a date such as '2026-12-24 08:00', or +1h30m, got ${JSON.stringify(text)}${hint}`,
  )
}
