import { setImmediate } from 'node:timers/promises'
import { SpooldError, toError } from '../../../base/errors.js'
import type { Request, Stored } from '../../../base/task/request.js'
import type { Draft } from './draft.js'
import {
  drive,
  keepAlive,
  needsNoWaiting,
  perform,
  type Wait,
  type WriteOptions,
  writeNow,
  writeSteps,
} from './write.js'

/** The result for one task of a batch. */
type WriteResult = { readonly stored: Stored } | { readonly error: Error }

/** Tasks written per turn of the event loop: about a millisecond. */
const TURN_TASKS = 100

/** Stores tasks that need no waiting. */
async function writeMany(requests: readonly Request[], options: WriteOptions): Promise<WriteResult[]> {
  const results: WriteResult[] = []
  for (const request of requests) {
    if (results.length % TURN_TASKS === 0) await setImmediate()
    try {
      results.push({ stored: writeNow(request, options) })
    } catch (error) {
      results.push({ error: toError(error) })
    }
  }
  return results
}

interface BatchOptions extends WriteOptions {
  /**
   * True if no task is to be stored once one cannot be. Tasks that have taken their ids stay: the same batch may be stored
   * again.
   */
  readonly isAllOrNothing: boolean
}

/** Files that are written and synced side by side; each holds a descriptor meanwhile. */
const MAX_PARALLEL_WRITES = 128

/**
 * Stores many tasks. With sync, or all or nothing, no task is published before all are written, so that an error (a full disk)
 * comes before the first rename, and they share the syncs of their directories. Results come in the order of the requests.
 */
export async function writeTasks(
  requests: readonly Request[],
  options: BatchOptions,
): Promise<WriteResult[]> {
  const { sync, isAllOrNothing } = options
  if (!isAllOrNothing && requests.every(one => needsNoWaiting(one, options)))
    return writeMany(requests, options)
  const isTogether = sync || isAllOrNothing
  const written: Draft[] = []
  let publish = () => {}
  const areAllWritten = new Promise<void>(resolve => {
    publish = resolve
  })
  let fault: SpooldError | undefined
  const results: Promise<WriteResult>[] = []
  const begin = (request: Request) =>
    new Promise<void>(hasCome => {
      const waitFor = async (wait: Wait) => {
        if (wait.kind === 'written' && isTogether) {
          written.push(wait.draft)
          hasCome()
          await areAllWritten
        } else await perform(wait)
        // others may rely on a promised task
        if (fault !== undefined && (wait.kind === 'written' || request.id === undefined)) throw fault
      }
      const failed = (error: unknown) => {
        if (isAllOrNothing) fault ??= givenUp(toError(error))
        return { error: toError(error) }
      }
      const result = drive(writeSteps(request, options), waitFor).then(stored => ({ stored }), failed)
      results.push(result)
      void result.then(() => hasCome())
    })
  const rest = keepAlive(written)
  for (let i = 0; i < requests.length; i += MAX_PARALLEL_WRITES)
    await Promise.all(requests.slice(i, i + MAX_PARALLEL_WRITES).map(begin))
  rest()
  publish()
  return Promise.all(results)
}

/** Returns the error of the other tasks of a batch that is stored as a whole or not at all. */
function givenUp(cause: Error): SpooldError {
  const code = cause instanceof SpooldError ? cause.code : 'ENQUEUE_FAILED'
  const message = `not stored, because another task of the batch was not: ${cause.message}`
  return new SpooldError(code, message, { cause })
}
