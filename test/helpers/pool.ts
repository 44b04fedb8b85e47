import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Emitter } from '#src/base/events/emitter.js'
import type { Awaitable, Claims } from '#src/engines/claims.js'
import { DirectoryFeed } from '#src/engines/directory/feed.js'
import type { Source } from '#src/engines/feed.js'
import { MemoryClaims } from '#src/engines/memory/claims.js'
import { MemoryFeed } from '#src/engines/memory/feed.js'
import type { MemorySpool } from '#src/engines/memory/spool.js'
import { openDirectoryClaims } from '#src/engines/spool/claims/claims.js'
import type { WorkerMessage, WorkerOptions } from '#src/runtime/ipc/messages.js'
import { InProcessPort } from '#src/runtime/supervisor/in-process-port.js'
import type { SizeOptions, WorkerLimits } from '#src/runtime/supervisor/pool-options.js'
import { SignalRouter } from '#src/runtime/supervisor/signal-router.js'
import { WorkerPool } from '#src/runtime/supervisor/worker-pool.js'
import { Worker } from '#src/runtime/worker/worker.js'
import { CLAIMS_DEFAULTS } from './engine.js'
import { workspace } from './workspace.js'

const opened: Array<() => unknown> = []

/** Closes all pools. To be called after each test. */
export async function closePools(): Promise<void> {
  for (const close of opened.splice(0)) await close()
}

/** The parts of an engine that a pool and its workers use. */
interface PoolEngine {
  feed(events: Emitter): Source
  claims(options: Pick<WorkerOptions, 'delivery' | 'policy'>): Awaitable<Claims>
}

export interface PoolSettings {
  readonly worker?: Partial<WorkerOptions>
  readonly processes?: number
  readonly size?: Partial<SizeOptions>
  readonly limits?: Partial<WorkerLimits>
  /** Called with a worker's message before the pool gets it. */
  readonly sending?: (message: WorkerMessage) => void
}

/** Opens a pool for a spool directory. Its workers are in this process. */
export function poolOf(spool: string, handler: string, settings: PoolSettings = {}) {
  const { rules, frequencyMs } = CLAIMS_DEFAULTS
  return openPool(spool, handler, settings, {
    feed: events => new DirectoryFeed({ spool, rules, order: 'age', frequencyMs, watch: 'off' }, events),
    claims: ({ delivery }) => openDirectoryClaims({ ...CLAIMS_DEFAULTS, spool, delivery }),
  })
}

/** Opens a pool for a spool in memory. Its workers are in this process. */
export function memoryPoolOf(spool: MemorySpool, handler: string, settings: PoolSettings = {}) {
  return openPool(spool.name, handler, settings, {
    feed: () => new MemoryFeed(spool, 50),
    claims: ({ delivery, policy }) =>
      new MemoryClaims(spool, { ...CLAIMS_DEFAULTS, frequencyMs: 50, delivery, policy }),
  })
}

function openPool(
  spool: string,
  handler: string,
  { worker, processes = 2, size, limits, sending = () => {} }: PoolSettings,
  engine: PoolEngine,
) {
  const file = join(workspace(), 'handler.mjs')
  writeFileSync(file, handler)
  const events = new Emitter()
  const feed = engine.feed(events)
  opened.push(() => feed.close())
  const ports: InProcessPort[] = []
  const options: WorkerOptions = {
    ...CLAIMS_DEFAULTS,
    ...{ spool, ordered: true, strictNames: false, targets: [], queues: [], concurrency: 1, maxTasks: 0 },
    memory: { rssBytes: 0, vszBytes: 0, minAgeMs: 0 },
    ...{ signalAsTask: false, harakiriMs: 0, startTimeoutMs: 0, chdir: null, title: null },
    ...{ isListenedTo: false, isDetailed: false, hide: [], chain: [{ kind: 'javascript', file }] },
    ...worker,
  }
  const openPort = () => {
    const port = new InProcessPort(
      home =>
        new Worker({
          ...home,
          send(message, sent) {
            sending(message)
            home.send(message, sent)
          },
          entered() {},
          engine: { claims: async claimsOptions => engine.claims(claimsOptions) },
        }),
    )
    ports.push(port)
    return port
  }
  const pool = new WorkerPool(
    {
      ...{ worker: options, openPort, mercyMs: 60_000 },
      ...{ processes, scaling: null, startsCheap: false, idleMs: 0, ...size },
      limits: { evilRssBytes: 0, evilVszBytes: 0, lifetimeMs: 0, lifetimeDeltaMs: 0, ...limits },
      answer: ({ id }) => ({ type: 'answer', id, values: [] }),
    },
    feed,
    events,
    new SignalRouter(events, { declared() {}, added() {} }),
  )
  opened.push(() => pool.kill())
  return {
    pool,
    feed,
    events,
    ports,
    async run() {
      await Promise.all([pool.start(), feed.open(() => pool.dispatch())])
      pool.complete()
      pool.begin()
    },
  }
}
