import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { SpooldError, toError } from '../../../base/errors.js'
import { onDemand } from '../../../base/on-demand.js'
import { entryFile } from '../../../base/package-root.js'
import { Queue } from '../../../base/queue.js'
import type { Request, Stored } from '../../../base/task/request.js'
import { nameOf } from '../../../system/files/anchored-path.js'
import type { Owner } from '../permissions.js'
import type { Chunk, ChunkFailures } from './batch-thread.js'
import { type Draft, newTaskPath, writeInPlace } from './draft.js'
import {
  drive,
  keepAlive,
  needsNoWaiting,
  perform,
  type Wait,
  type WriteOptions,
  writeError,
  writeSteps,
} from './write.js'

/** The result for one task of a batch. */
type WriteResult = { readonly stored: Stored } | { readonly error: Error }

/** Tasks written per turn of the event loop: about a millisecond. */
const CHUNK_TASKS = 100
/** Fewer tasks than this are written before a second thread has started. */
const MANY_TASKS = 5000

/**
 * Consecutive tasks of a batch, from `begin`. The names are made in the order of the tasks, because tasks run in the order
 * of their names.
 */
interface Part {
  readonly begin: number
  readonly requests: readonly Request[]
  readonly paths: readonly string[]
}

/**
 * Stores tasks that need no waiting: in this thread and, if there are many, in a second one too. Each thread takes the next
 * part when it has finished one.
 */
async function writeMany(
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
    return { begin, requests: taken, paths: taken.map(request => newTaskPath(spool, request)) }
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

const threads = onDemand<typeof import('node:worker_threads')>('node:worker_threads')

interface Waiting {
  /** How many tasks the thread was given. */
  readonly size: number
  settle(failures: ReadonlyMap<number, Error>): void
}

/** The thread ends after this long without a batch. */
const IDLE_MS = 5000

let current: BatchWriter | undefined

/** The writer of this process; undefined if no thread can be started. */
async function openBatchWriter(): Promise<BatchWriter | undefined> {
  if (current?.isEnded !== false) current = new BatchWriter()
  const writer = current
  return (await writer.hasStarted) ? writer : undefined
}

/**
 * A second thread that creates files in parallel with the first one: nearly all of that is kernel time, and the kernel lets
 * two threads do it at once. The thread does not keep an idle program alive.
 *
 * States: starting → idle ↔ writing → ended.
 */
class BatchWriter {
  readonly hasStarted: Promise<boolean>
  readonly #worker: Worker = new (threads().Worker)(entryFile('batch-thread'), { execArgv: [] })
  readonly #waiting = new Queue<Waiting>()
  #isEnded = false
  #idle: NodeJS.Timeout | undefined

  constructor() {
    this.hasStarted = once(this.#worker, 'message').then(
      () => true,
      () => false,
    )
    void this.hasStarted.then(() => {
      this.#worker.on('message', failures => this.#answer(failures))
      this.#rest()
    })
    this.#worker.on('error', () => {}) // 'exit' follows
    this.#worker.once('exit', () => this.#end())
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /**
   * Writes small packets, each under its path. Resolves to the errors, by position.
   *
   * @param owner the user to whom root gives the files
   */
  write(
    paths: readonly string[],
    packets: readonly Buffer[],
    owner: Owner | undefined,
  ): Promise<ReadonlyMap<number, Error>> {
    return new Promise(settle => {
      const size = paths.length
      clearTimeout(this.#idle)
      this.#worker.ref()
      this.#waiting.push({ size, settle })
      let end = 0
      const ends = packets.map(({ length }) => (end += length))
      this.#worker.postMessage({ paths, packets: Buffer.concat(packets), ends, owner } satisfies Chunk)
    })
  }

  #answer(failures: ChunkFailures): void {
    const errors = failures.map(
      ([place, message, code]) => [place, Object.assign(new Error(message), { code })] as const,
    )
    this.#waiting.pop()?.settle(new Map(errors))
    if (this.#waiting.size === 0) this.#rest()
  }

  #rest(): void {
    this.#worker.unref()
    this.#idle = setTimeout(() => void this.#worker.terminate(), IDLE_MS).unref()
  }

  #end(): void {
    this.#isEnded = true
    clearTimeout(this.#idle)
    for (let each = this.#waiting.pop(); each !== undefined; each = this.#waiting.pop())
      each.settle(allFailed(each.size))
  }
}

function allFailed(size: number): ReadonlyMap<number, Error> {
  const error = new Error('the thread that wrote it has ended; it may have been stored')
  return new Map(Array.from({ length: size }, (_, place) => [place, error]))
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
