import type { Request, Stored } from '../../base/task/request.js'
import type { Enqueuer, StoreResult } from '../../engines/enqueuer.js'
import type { MemoryEnqueuer } from '../../engines/memory/enqueuer.js'
import type { MemorySpool, MemoryTask } from '../../engines/memory/spool.js'
import type { EndedRun } from './runner.js'

/** Stores a task and runs it, before the caller learns that the task is stored. */
export class InlineEnqueuer implements Enqueuer {
  readonly #inner: MemoryEnqueuer
  readonly #spool: MemorySpool
  readonly #run: (task: MemoryTask) => Promise<EndedRun | undefined>

  constructor(
    inner: MemoryEnqueuer,
    spool: MemorySpool,
    run: (task: MemoryTask) => Promise<EndedRun | undefined>,
  ) {
    this.#inner = inner
    this.#spool = spool
    this.#run = run
  }

  get name(): string {
    return this.#inner.name
  }

  /** @throws what the task throws */
  async store(request: Request): Promise<Stored> {
    const stored = await this.#inner.store(request)
    await this.#runStored(stored)
    return stored
  }

  async storeAll(requests: readonly Request[], isAllOrNothing?: boolean): Promise<readonly StoreResult[]> {
    const results = await this.#inner.storeAll(requests, isAllOrNothing)
    for (const result of results) if ('stored' in result) await this.#runStored(result.stored)
    return results
  }

  async #runStored({ path, isDuplicate }: Stored): Promise<void> {
    const task = this.#spool.tasks.get(path.slice(this.#spool.name.length + 1))
    if (task === undefined || isDuplicate) return
    const run = await this.#run(task)
    if (run?.error !== undefined) throw run.error
  }
}
