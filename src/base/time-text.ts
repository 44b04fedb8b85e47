const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

/**
 * Parses `90` (seconds), `5m`, `1h30m`, `500ms`, `2d` or `1w`.
 *
 * @returns milliseconds; undefined for anything else
 */
export function parseDuration(text: string): number | undefined {
  if (isPlainNumber(text)) return Number(text) * 1000
  if (!/^(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+$/.test(text)) return undefined
  let sum = 0
  for (const [, amount, unit = ''] of text.matchAll(/([0-9.]+)(ms|[smhdw])/g))
    sum += Number(amount) * (UNIT_MS[unit] ?? 0)
  return sum
}

/** `12 ms`, `1.2 s`, `60 s`: rounded for people. */
export function durationText(ms: number): string {
  if (ms < 950) return `${Math.max(0, Math.round(ms))} ms`
  return `${ms < 10_000 ? Math.round(ms / 100) / 10 : Math.round(ms / 1000)} s`
}

const PLAIN_NUMBER = /^[0-9]+(?:\.[0-9]*)?$/

/** A number without sign, unit or exponent; where a duration is expected, it means seconds. */
export function isPlainNumber(text: string): boolean {
  return PLAIN_NUMBER.test(text)
}

/** The end of the year 9999. A larger number must be milliseconds: every time since 1978 in milliseconds is larger. */
export const LAST_SECOND = 253_402_300_799

/** ISO 8601. A blank may replace the T and precede the zone, and the zone may be UTC, as in Ruby's times. */
const DATED =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?: ?(Z|UTC|[+-]\d\d(?::?\d\d)?))?)?$/i

/** True if the text is a number of seconds, whether in range or not. */
export function isSeconds(text: string): boolean {
  return isPlainNumber(text.replace(/^-/, ''))
}

/**
 * Parses a point in time: epoch seconds; an ISO 8601 date, in this machine's time zone unless it names another; or `+1h30m`
 * from now. `Date.parse` is not used, because it takes "tomorrow 9" for a day in 2001.
 *
 * @returns epoch seconds, at most LAST_SECOND; undefined for anything else
 */
export function parseTime(text: string, nowMs = Date.now()): number | undefined {
  const seconds = text.startsWith('+')
    ? fromNow(text.slice(1), nowMs)
    : isSeconds(text)
      ? Number(text)
      : parseDate(text)
  return seconds !== undefined && Math.abs(seconds) <= LAST_SECOND ? seconds : undefined
}

function fromNow(text: string, nowMs: number): number | undefined {
  const ms = parseDuration(text)
  return ms === undefined ? undefined : Math.ceil((nowMs + ms) / 1000)
}

function parseDate(text: string): number | undefined {
  const found = DATED.exec(text)
  if (found === null) return undefined
  const [year = 0, month = 0, day = 0, hours = 0, minutes = 0, seconds = 0] = found.slice(1, 7).map(numberOf)
  if (!isDay(year, month, day) || hours > 23 || minutes > 59 || seconds > 59) return undefined
  const [fraction = '', zone] = found.slice(7)
  const ms = Math.floor(Number(`0.${fraction || 0}`) * 1000)
  if (zone === undefined) return new Date(year, month - 1, day, hours, minutes, seconds, ms).getTime() / 1000
  const offset = offsetSeconds(zone)
  if (offset === undefined) return undefined
  return Date.UTC(year, month - 1, day, hours, minutes, seconds, ms) / 1000 - offset
}

/** A missing part counts as 0. */
function numberOf(digits: string | undefined): number {
  return Number(digits ?? 0)
}

/** True if the day exists: there is no 30th of February. */
function isDay(year: number, month: number, day: number): boolean {
  const date = new Date(Date.UTC(year, month - 1, day))
  return year >= 100 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day
}

/** `Z`, `UTC`, `+01`, `+0100`, `+01:00`. */
function offsetSeconds(zone: string): number | undefined {
  if (/^(Z|UTC)$/i.test(zone)) return 0
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(3).replace(':', ''))]
  if (hours > 23 || minutes > 59) return undefined
  return (zone.startsWith('-') ? -1 : 1) * (hours * 3600 + minutes * 60)
}
