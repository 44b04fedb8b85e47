/** When a task that failed runs again, and when it is given up. */
export interface RetryPolicy {
  /** Failed runs after which a task is buried; 0: never, as in uWSGI. */
  readonly maxAttempts: number
  /** Runs that took their process with them, after which a task is buried; 0: never. */
  readonly maxCrashes: number
  readonly backoff: Backoff
  /** How long a retry waits (`fixed`), or waits first (`exponential`); null: the policy's own default. */
  readonly delayMs: number | null
  /** The longest wait of `exponential`. */
  readonly capMs: number
}

/** `none`: at once, behind what is due already. */
export type Backoff = 'none' | 'fixed' | 'exponential'

const EXPONENTIAL_BASE_MS = 3000

/**
 * How long to wait after the failed run number `attempts`, from 1.
 *
 * `exponential` is Spinach's: half of min(3 · 2^n, cap) seconds, and as much again times a random number, so that tasks
 * that failed together do not come back together.
 *
 * @param frequencyMs what `fixed` waits by default
 */
export function retryDelayMs(
  { backoff, delayMs, capMs }: RetryPolicy,
  attempts: number,
  frequencyMs: number,
  random = Math.random,
): number {
  if (backoff === 'none') return 0
  if (backoff === 'fixed') return delayMs ?? frequencyMs
  const half = Math.min((delayMs ?? EXPONENTIAL_BASE_MS) * 2 ** attempts, capMs) / 2
  return Math.round(half + random() * half)
}

/** After its first crash a task runs again at once, then after 1 s, 2 s, 4 s, … up to `capMs`. */
export function crashDelayMs(crashes: number, capMs: number): number {
  return crashes <= 1 ? 0 : Math.min(1000 * 2 ** (crashes - 2), capMs)
}
