import { parseDuration } from '../../base/time-text.js'

/** Returns a duration in ms. @param value seconds, or text such as `5m` @returns undefined for anything else */
export function durationMs(value: unknown): number | undefined {
  const ms = typeof value === 'number' ? value * 1000 : parseDuration(typeof value === 'string' ? value : '')
  return ms !== undefined && ms >= 0 && Number.isFinite(ms) ? ms : undefined
}
