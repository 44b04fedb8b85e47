import { setTimeout as sleep } from 'node:timers/promises'
import { pauseMs } from '../client.js'
import type { Connection } from '../connection.js'
import { isAway, storeFailure } from '../store-failure.js'

/** How long to go on: a Redis that is restarted, or fails over, is back by then. */
const PATIENCE_MS = 30_000

/**
 * Repeats an operation that may be done twice until Redis has answered.
 *
 * @throws SpooldError what Redis answered, or that it does not
 */
export async function patiently<T>(connection: Connection, operation: () => Promise<T>): Promise<T> {
  const until = performance.now() + PATIENCE_MS
  for (let failures = 0; ; failures++)
    try {
      return await operation()
    } catch (error) {
      const failure = storeFailure(connection, error)
      if (!isAway(failure) || performance.now() > until) throw failure
      await sleep(pauseMs(failures))
    }
}
