import { RATE_WINDOW_MS } from './drain-rate.js'

/** The share of one core that scanning may take: what costs more happens less often. */

/** Re-checking one waiting file costs about 6 µs; budget: 0.5 % of one core. */
const LOOK_AGAIN_MS_PER_FILE = 1.2
/** The scan that finds their names: 1 % of one core. */
const LOOK_AGAIN_SHARE = 100
/** Scans while watches are suspended: 5 % of one core. */
const SUSPENDED_SHARE = 20
/** Scans because of ambiguous events: 10 % of one core. */
const UNCLEAR_SHARE = 10
/** Polling: 2 % of one core. */
const POLL_MS = 1000
const POLL_SHARE = 50

export function lookAgainEveryMs(waiting: number, lastScanMs: number): number {
  return Math.max(waiting * LOOK_AGAIN_MS_PER_FILE, lastScanMs * LOOK_AGAIN_SHARE)
}

export function suspendedScanEveryMs(lastScanMs: number): number {
  return Math.max(RATE_WINDOW_MS, lastScanMs * SUSPENDED_SHARE)
}

export function unclearScanInMs(lastScanMs: number, frequencyMs: number): number {
  return Math.min(frequencyMs, lastScanMs * UNCLEAR_SHARE)
}

/** From the start of a pass to that of the next: `frequencyMs`, unless it takes half of that. */
export function passEveryMs(lastPassMs: number, frequencyMs: number, isPolled: boolean): number {
  const everyMs = isPolled ? Math.min(frequencyMs, Math.max(POLL_MS, lastPassMs * POLL_SHARE)) : frequencyMs
  return Math.max(everyMs, 2 * lastPassMs)
}
