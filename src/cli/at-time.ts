import { SpooldError } from '../base/errors.js'

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }

/**
 * `--at`: epoch seconds; a date, with a time of day in the zone of this machine unless it names another
 * (`2026-12-24 08:00`); or `+5m` from now (s, m, h, d, w).
 *
 * @returns epoch seconds
 * @throws SpooldError USAGE
 */
export function parseAt(text: string, nowMs = Date.now()): number {
  const [, amount, unit = 's'] = /^\+([0-9]{1,9})([smhdw]?)$/.exec(text) ?? []
  if (amount !== undefined) return Math.ceil(nowMs / 1000) + Number(amount) * (UNIT_SECONDS[unit || 's'] ?? 1)
  const seconds = /^[0-9]+(\.[0-9]*)?$/.test(text) ? Number(text) : Date.parse(text) / 1000
  if (Number.isFinite(seconds)) return seconds
  throw new SpooldError(
    'USAGE',
    `--at: expected epoch seconds, a date such as '2026-12-24 08:00', or +5m, got ${JSON.stringify(text)}`,
  )
}
