import { RATE_WINDOW_MS } from './drain-rate.js'

/** How much of a core looking may take: what costs more comes less often. */

/** A look at a waiting file that nobody announced costs about 6 µs; all of them may take half a percent of one core. */
const LOOK_AGAIN_MS_PER_FILE = 1.2
/** And the scan that names them a hundredth. */
const LOOK_AGAIN_SHARE = 100
/** While watches are suspended, scans may use a twentieth of one core. */
const SUSPENDED_SHARE = 20
/** Scans because of events that do not say enough take a tenth of one core. */
const UNCLEAR_SHARE = 10
/** Polling takes a fiftieth of one core. */
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
