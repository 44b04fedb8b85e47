import { once } from 'node:events'
import type { Worker } from 'node:worker_threads'
import { onDemand } from '../../../base/on-demand.js'
import { entryFile } from '../../../base/package-root.js'
import { Queue } from '../../../base/queue.js'
import type { Owner } from '../permissions.js'
import type { Chunk, ChunkFailures } from './batch-thread.js'

const threads = onDemand<typeof import('node:worker_threads')>('node:worker_threads')

interface Waiting {
  /** How many tasks it is about. */
  readonly size: number
  settle(failures: ReadonlyMap<number, Error>): void
}

/** The thread ends after this long without a batch. */
const IDLE_MS = 5000

let current: BatchWriter | undefined

/** The writer of this process; undefined if no thread can be started. */
export async function openBatchWriter(): Promise<BatchWriter | undefined> {
  if (current?.isEnded !== false) current = new BatchWriter()
  const writer = current
  return (await writer.hasStarted) ? writer : undefined
}

/**
 * A second thread that creates files in parallel with the first one: nearly all of it is kernel time, and the kernel lets
 * two threads do it at once. It does not keep an idle program alive.
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

  /** Writes small packets, each under its path. Resolves to the errors, by place. @param owner whom root gives them to */
  write(
    paths: readonly string[],
    packets: readonly Buffer[],
    owner: Owner | undefined,
  ): Promise<ReadonlyMap<number, Error>> {
    return new Promise(settle => {
      const size = paths.length
      if (this.#isEnded) return settle(allFailed(size, 'the thread that writes batches has ended'))
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
      each.settle(allFailed(each.size, 'the thread that wrote it has ended; it may have been stored'))
  }
}

function allFailed(size: number, because: string): ReadonlyMap<number, Error> {
  return new Map(Array.from({ length: size }, (_, place) => [place, new Error(because)] as const))
}
