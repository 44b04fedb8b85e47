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
import { newTaskPath, writeInPlace } from './draft.js'
import {
  keepAlive,
  needsNoWaiting,
  perform,
  type Steps,
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

/** One task on its way: where it stands, or what became of it. */
interface PendingWrite {
  readonly request: Request
  readonly steps: Steps
  wait: Wait | undefined
  result: WriteResult | undefined
}

/**
 * Stores many tasks with one sync: first all files, then each directory once. Results come in the order of the requests.
 * Nothing is published before everything is written, so an error (a full disk) comes before the first rename. Without sync
 * there is nothing to share, so each task is published at once unless the batch is all or nothing.
 */
export async function writeTasks(
  requests: readonly Request[],
  options: BatchOptions,
): Promise<WriteResult[]> {
  if (!options.isAllOrNothing && requests.every(one => needsNoWaiting(one, options)))
    return writeMany(requests, options)
  const pending = requests.map(
    (request): PendingWrite => ({
      request,
      steps: writeSteps(request, options),
      wait: undefined,
      result: undefined,
    }),
  )
  const isEach = !options.sync && !options.isAllOrNothing
  const rest = keepAlive(pending.length, place => {
    const wait = pending[place]?.wait
    return wait?.kind === 'written' ? wait.draft : undefined
  })
  for (let i = 0; i < pending.length; i += MAX_PARALLEL_WRITES)
    await Promise.all(
      pending
        .slice(i, i + MAX_PARALLEL_WRITES)
        .map(write => advanceWhile(write, ({ kind }) => isEach || kind !== 'written')),
    )
  rest()
  for (;;) {
    if (options.isAllOrNothing && pending.some(hasFailed)) giveUp(pending)
    const waiting = pending.filter(({ wait }) => wait !== undefined)
    if (waiting.length === 0) break
    const failures = await syncDirectories(waiting)
    for (const write of waiting) advance(write, failures.get(pathOf(write.wait)))
  }
  return pending.map(({ result }) => result ?? { error: new Error('unreachable') })
}

async function advanceWhile(write: PendingWrite, goesOn: (wait: Wait) => boolean): Promise<void> {
  advance(write)
  while (write.wait !== undefined && goesOn(write.wait))
    try {
      await perform(write.wait)
      advance(write)
    } catch (error) {
      advance(write, error)
    }
}

/** @returns the directories whose sync failed, with the reason */
async function syncDirectories(pending: readonly PendingWrite[]): Promise<Map<string, unknown>> {
  const failures = new Map<string, unknown>()
  const paths = new Set(pending.map(({ wait }) => pathOf(wait)).filter(path => path !== ''))
  for (const path of paths)
    await perform({ kind: 'directory', path }).catch(error => failures.set(path, error))
  return failures
}

function pathOf(wait: Wait | undefined): string {
  return wait?.kind === 'directory' ? wait.path : ''
}

/** Advances a write to its next wait. With an error, the write ends as failed. */
function advance(write: PendingWrite, error?: unknown): void {
  write.wait = undefined
  try {
    const step = error === undefined ? write.steps.next() : write.steps.throw(error)
    if (step.done === true) write.result = { stored: step.value }
    else write.wait = step.value
  } catch (reason) {
    write.result = { error: toError(reason) }
  }
}

function hasFailed({ result }: PendingWrite): boolean {
  return result !== undefined && 'error' in result
}

/**
 * Gives up a batch once one of its tasks has failed. What still waits is taken back, except for promises, on which others
 * may rely.
 */
function giveUp(pending: readonly PendingWrite[]): void {
  const failed = pending.find(hasFailed)?.result
  if (failed === undefined || !('error' in failed)) return
  const { error: cause } = failed
  const code = cause instanceof SpooldError ? cause.code : 'ENQUEUE_FAILED'
  const message = `not stored, because another task of the batch was not: ${cause.message}`
  for (const write of pending)
    if (write.wait?.kind === 'written' || (write.wait !== undefined && write.request.id === undefined))
      advance(write, new SpooldError(code, message, { cause }))
}
