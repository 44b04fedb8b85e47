import type { RetryPolicy } from '../../base/task/terms.js'
import type { SpoolOptions } from './option-table.js'

export function retryPolicyOf(options: SpoolOptions): RetryPolicy {
  return {
    maxAttempts: options.spoolerMaxAttempts,
    maxCrashes: options.spoolerMaxCrashes,
    backoff: options.spoolerBackoff,
    delayMs: options.spoolerRetryDelayMs,
    capMs: options.spoolerBackoffCapMs,
  }
}
