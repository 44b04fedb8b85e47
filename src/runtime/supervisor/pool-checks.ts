import type { Emitter } from '../../base/events/emitter.js'
import { type TreeMemory, treeMemoryOf } from '../../system/process-usage.js'
import type { WorkerPool } from './worker-pool.js'
import type { WorkerProcess } from './worker-process.js'

/** The limits of the whole daemon. */
export interface CheckOptions {
  readonly everyMs: number
  /** Resident memory of all workers together with their interpreters and programs; 0: no limit. */
  readonly softRssBytes: number
  readonly hardRssBytes: number
}

const BY_FIFO = 'by the master FIFO'

type Memory = ReadonlyMap<WorkerProcess, TreeMemory>

/**
 * Checks at each interval, in uWSGI's order: lifetimes and memory of single workers, the memory of all workers, what people asked
 * for, and then each pool's algorithm. There is no timer unless an option needs it.
 */
export class PoolChecks {
  readonly #events: Emitter
  readonly #pools: () => readonly WorkerPool[]
  #options: CheckOptions = { everyMs: 1000, softRssBytes: 0, hardRssBytes: 0 }
  #timer: NodeJS.Timeout | undefined
  /** How many more or fewer workers the master FIFO has asked for. */
  #asked = 0

  constructor(events: Emitter, pools: () => readonly WorkerPool[]) {
    this.#events = events
    this.#pools = pools
  }

  /** Call it again after a reload. */
  serve(options: CheckOptions): void {
    this.stop()
    this.#options = options
    const isNeeded = options.softRssBytes > 0 || this.#pools().some(isChecked)
    if (isNeeded) this.#timer = setInterval(() => this.#tick(), options.everyMs)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#asked = 0
  }

  /** `+` and `-` of the master FIFO: takes effect at the next check, if any pool adapts. */
  ask(by: 1 | -1): void {
    if (this.#timer !== undefined) this.#asked += by
  }

  /** `C` of the master FIFO: no workers until there is something to do. Busy workers first finish what they run. */
  sleep(): void {
    for (const { size } of this.#pools()) size.sleep(BY_FIFO)
  }

  #tick(): void {
    const pools = this.#pools()
    const memory = this.#memoryOf(pools)
    for (const pool of pools) this.#replaceOld(pool)
    for (const pool of pools) this.#killOverweight(pool, memory)
    const mayGrow = this.#limitMemory(pools, memory)
    for (; this.#asked > 0; this.#asked--) if (mayGrow) this.#nudgeOne(longestWaitFirst(pools), 1, BY_FIFO)
    for (; this.#asked < 0; this.#asked++) this.#nudgeOne(idlestFirst(pools), -1, BY_FIFO)
    for (const { size } of pools) size.tick(mayGrow)
  }

  #memoryOf(pools: readonly WorkerPool[]): Memory {
    const { softRssBytes } = this.#options
    const seen = pools.filter(pool => softRssBytes > 0 || isWeighed(pool))
    const workers = seen.flatMap(pool => [...pool.workers]).filter(({ hasOwnProcess }) => hasOwnProcess)
    return new Map(workers.map(worker => [worker, treeMemoryOf(worker.pid)]))
  }

  #replaceOld(pool: WorkerPool): void {
    const { lifetimeMs, lifetimeDeltaMs } = pool.options.limits
    if (lifetimeMs === 0 || pool.size.isFrozen) return
    for (const worker of pool.workers) {
      if (worker.state !== 'ready') continue
      const number = pool.roster.numberOf(worker)
      const livedMs = performance.now() - worker.spawnedAt
      if (livedMs <= lifetimeMs + (number - 1) * lifetimeDeltaMs) continue
      this.#events.emit('worker-outlived', { spool: pool.spool, pid: worker.pid, number, livedMs })
      pool.recycle(worker)
    }
  }

  #killOverweight(pool: WorkerPool, memory: Memory): void {
    const { evilRssBytes, evilVszBytes } = pool.options.limits
    for (const worker of pool.workers) {
      const { rssBytes, vszBytes } = memory.get(worker) ?? { rssBytes: 0, vszBytes: 0 }
      const tooMuch = [
        { kind: 'as', bytes: vszBytes, limit: evilVszBytes } as const,
        { kind: 'rss', bytes: rssBytes, limit: evilRssBytes } as const,
      ].find(({ bytes, limit }) => limit > 0 && bytes >= limit)
      if (tooMuch === undefined) continue
      const { kind, bytes } = tooMuch
      const [{ pid }, number] = [worker, pool.roster.numberOf(worker)]
      this.#events.emit('worker-overweight', { spool: pool.spool, pid, number, kind, bytes })
      worker.kill({ kind: 'overweight', option: `evil-reload-on-${kind}` })
    }
  }

  /** @returns false if no worker may be spawned */
  #limitMemory(pools: readonly WorkerPool[], memory: Memory): boolean {
    const { softRssBytes, hardRssBytes } = this.#options
    if (softRssBytes === 0) return true
    const present = [...memory].filter(([{ state }]) => state !== 'draining')
    const total = present.reduce((sum, [, { rssBytes }]) => sum + rssBytes, 0)
    if (hardRssBytes > 0 && present.length > 1 && total >= hardRssBytes) {
      this.#events.emit('scaling-memory-short', { workers: present.length })
      // while a pool shrinks already, its next worker to become idle goes
      if (!pools.some(({ size }) => size.isShrinking))
        this.#nudgeOne(idlestFirst(pools), -1, 'memory is short')
    }
    return total < softRssBytes
  }

  #nudgeOne(pools: readonly WorkerPool[], by: 1 | -1, because: string): void {
    pools.find(({ size }) => size.isAdaptive && size.nudge(by, because))
  }
}

function isChecked(pool: WorkerPool): boolean {
  return pool.size.isAdaptive || pool.options.limits.lifetimeMs > 0 || isWeighed(pool)
}

function isWeighed({ options: { limits } }: WorkerPool): boolean {
  return limits.evilRssBytes > 0 || limits.evilVszBytes > 0
}

function idlestFirst(pools: readonly WorkerPool[]): WorkerPool[] {
  return [...pools].sort((a, b) => (b.idleMs ?? -1) - (a.idleMs ?? -1))
}

function longestWaitFirst(pools: readonly WorkerPool[]): WorkerPool[] {
  const since = new Map(pools.map(pool => [pool, pool.oldestDueMs ?? Number.POSITIVE_INFINITY]))
  return [...pools].sort((a, b) => Math.sign((since.get(a) ?? 0) - (since.get(b) ?? 0)) || 0)
}
