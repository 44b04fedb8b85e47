import { setImmediate } from 'node:timers/promises'
import { toError } from '../../../base/errors.js'
import type { Request, Stored } from '../../../base/task/request.js'
import { nameOf } from '../../../system/files/anchored-path.js'
import type { Owner } from '../permissions.js'
import { openBatchWriter } from './batch-writer.js'
import { newTaskPath, writeInPlace } from './draft.js'
import { writeError } from './write-error.js'
import type { WriteOptions } from './write-steps.js'

/** The result for one task of a batch. */
export type WriteResult = { readonly stored: Stored } | { readonly error: Error }

/** Tasks written per turn of the event loop: about a millisecond. */
const CHUNK_TASKS = 100
/** Fewer tasks are written before a second thread has started. */
const MANY_TASKS = 5000

/** Consecutive tasks of a batch, from `begin`. The names are made in the order of the tasks: it is the order in which they run. */
interface Part {
  readonly begin: number
  readonly requests: readonly Request[]
  readonly paths: readonly string[]
}

/**
 * Stores tasks that need no waiting: in this thread and, if there are many, in a second one too. Each thread takes the next
 * part when it has finished one.
 */
export async function writeMany(
  requests: readonly Request[],
  { spool, owner }: WriteOptions,
): Promise<WriteResult[]> {
  const results: WriteResult[] = []
  let next = 0
  const take = (): Part | undefined => {
    if (next === requests.length) return undefined
    const begin = next
    next = Math.min(begin + CHUNK_TASKS, requests.length)
    const taken = requests.slice(begin, next)
    return { begin, requests: taken, paths: taken.map(() => newTaskPath(spool)) }
  }
  const settle = ({ begin, paths }: Part, failures: ReadonlyMap<number, unknown>) =>
    paths.forEach((path, place) => {
      const error = failures.get(place)
      results[begin + place] =
        error === undefined
          ? { stored: { path: nameOf(path), isDuplicate: false } }
          : { error: writeError(spool, error) }
    })
  const here = async () => {
    for (let part = take(); part !== undefined; part = take()) {
      settle(part, writePart(part, owner))
      await setImmediate()
    }
  }
  const there = async () => {
    const writer = await openBatchWriter()
    while (writer?.isEnded === false) {
      const part = take()
      if (part === undefined) return
      const packets = part.requests.map(({ packet }) => packet)
      settle(part, await writer.write(part.paths, packets, owner))
    }
  }
  // the thread always has two parts, so that it need not wait for our reply
  await Promise.all(requests.length < MANY_TASKS ? [here()] : [here(), there(), there()])
  return results
}

/** @returns the errors, by position */
function writePart({ requests, paths }: Part, owner: Owner | undefined): Map<number, unknown> {
  const failures = new Map<number, unknown>()
  requests.forEach(({ packet }, place) => {
    try {
      writeInPlace(paths[place] ?? '', packet, owner)
    } catch (error) {
      failures.set(place, toError(error))
    }
  })
  return failures
}
