import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import { PoolChecks } from '#src/runtime/supervisor/pool-checks.js'
import type { SizeOptions } from '#src/runtime/supervisor/pool-options.js'
import { loadAlgorithm } from '#src/runtime/supervisor/scaling/algorithms.js'
import type { WorkerPool } from '#src/runtime/supervisor/worker-pool.js'
import { treeMemoryOf } from '#src/system/process-usage.js'
import { closePools, type PoolSettings, poolOf } from '../helpers/pool.js'
import { OPTIONS } from '../helpers/scaling.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

afterEach(closePools)

const NO_LIMIT = { everyMs: 60_000, softRssBytes: 0, hardRssBytes: 0 }
const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length

/** Returns how many timers the checks have for a pool like this. */
function timersFor(settings: PoolSettings, options = NO_LIMIT): number {
  const { pool } = poolOf(spoolDirectory(), '', settings)
  const checks = new PoolChecks(new Emitter(), () => [pool])
  const before = timers()
  checks.serve(options)
  const more = timers() - before
  checks.stop()
  assert.equal(timers(), before)
  return more
}

async function adaptive(): Promise<Partial<SizeOptions>> {
  const algorithm = await loadAlgorithm('manual')
  return { scaling: { algorithm, options: OPTIONS, initial: 1 } }
}

describe('the checks of pools', () => {
  it('tick only if an option needs it', async () => {
    assert.equal(timersFor({}), 0)
    assert.equal(timersFor({ size: { startsCheap: true, idleMs: 500 } }), 0)
    assert.equal(timersFor({ size: await adaptive() }), 1)
    assert.equal(timersFor({ limits: { lifetimeMs: 1000 } }), 1)
    assert.equal(timersFor({ limits: { evilRssBytes: 1 } }), 1)
    assert.equal(timersFor({ limits: { evilVszBytes: 1 } }), 1)
    assert.equal(timersFor({}, { ...NO_LIMIT, softRssBytes: 1 }), 1)
  })
})

interface Seen {
  readonly name: string
  readonly idleMs?: number
  readonly oldestDueMs?: number
  /** The change that the pool refuses. */
  readonly refuses?: 1 | -1
  readonly isFixed?: true
  readonly isShrinking?: true
  /** The states of its workers, each of which is this process, with its memory. */
  readonly workers?: ReadonlyArray<'ready' | 'draining'>
}

/** Returns what one check asks of pools like these after `asks` times `+`, or `-` if negative, and whether they may grow. */
async function checked(seen: readonly Seen[], { asks = 0, options = NO_LIMIT } = {}) {
  const nudged: string[] = []
  let ticks = 0
  let mayGrow = true
  const poolLike = (pool: Seen) => ({
    ...pool,
    workers: new Set((pool.workers ?? []).map(state => ({ state, pid: process.pid, hasOwnProcess: true }))),
    options: { limits: { lifetimeMs: 0, evilRssBytes: 0, evilVszBytes: 0 } },
    size: {
      isAdaptive: pool.isFixed !== true,
      isShrinking: pool.isShrinking === true,
      tick(isAllowed: boolean) {
        mayGrow = isAllowed
        ticks++
      },
      nudge(by: 1 | -1) {
        if (pool.refuses === by) return false
        nudged.push(`${pool.name} ${by}`)
        return true
      },
    },
  })
  const events = new Emitter()
  const short: number[] = []
  events.on('scaling-memory-short', ({ workers }) => short.push(workers))
  const pools = seen.map(poolLike) as unknown as WorkerPool[]
  const checks = new PoolChecks(events, () => pools)
  checks.serve({ ...options, everyMs: 5 })
  for (let i = 0; i < Math.abs(asks); i++) checks.ask(asks > 0 ? 1 : -1)
  await until('all pools were checked', () => ticks >= pools.length)
  checks.stop()
  return { nudged, mayGrow, short: short[0] }
}

describe('+ and - of the master FIFO', () => {
  const [calm, late, later] = [
    { name: 'calm', idleMs: 500 },
    { name: 'late', oldestDueMs: 2000, idleMs: 900 },
    { name: 'later', oldestDueMs: 1000 },
  ]
  const CASES: ReadonlyArray<
    readonly [what: string, asks: number, pools: readonly Seen[], nudged: readonly string[]]
  > = [
    ['+ goes to the spool whose tasks have waited longest', 1, [calm, late, later], ['later 1']],
    [
      '+ goes to the spool whose tasks have waited longest, wherever it is in the list',
      1,
      [later, late, calm],
      ['later 1'],
    ],
    [
      '+ goes to the next spool if the first one refuses',
      1,
      [calm, late, { ...later, refuses: 1 }],
      ['late 1'],
    ],
    ['- goes to the spool that has been idle longest', -1, [calm, late, later], ['late -1']],
    [
      '- goes to the next spool if the first one refuses',
      -1,
      [later, calm, { ...late, refuses: -1 }],
      ['calm -1'],
    ],
    [
      '+ goes to no spool with a fixed number of workers',
      2,
      [{ ...later, isFixed: true }, calm],
      ['calm 1', 'calm 1'],
    ],
    ['each - counts', -3, [calm, late], ['late -1', 'late -1', 'late -1']],
  ]
  for (const [what, asks, pools, nudged] of CASES)
    it(`${what}: ${nudged.join(', ')}`, async () => {
      assert.deepEqual((await checked(pools, { asks })).nudged, nudged)
    })
})

describe('the memory of all workers', () => {
  const { rssBytes } = treeMemoryOf(process.pid)
  /** Above one process like this, and below two. */
  const options = {
    ...NO_LIMIT,
    softRssBytes: Math.round(1.4 * rssBytes),
    hardRssBytes: Math.round(1.5 * rssBytes),
  }

  it('above the hard limit takes a worker from the spool that has been idle longest, before any +', async () => {
    const pools = [
      { name: 'calm', idleMs: 500, workers: ['ready'] },
      { name: 'calmer', idleMs: 900, workers: ['ready'] },
    ] as const
    const seen = await checked(pools, { asks: 1, options })
    assert.deepEqual(seen, { nudged: ['calmer -1'], mayGrow: false, short: 2 })
  })

  it('leaves out workers that drain', async () => {
    const pools = [{ name: 'calm', idleMs: 500, workers: ['ready', 'draining', 'draining'] }] as const
    const seen = await checked(pools, { asks: 1, options })
    assert.deepEqual(seen, { nudged: ['calm 1'], mayGrow: true, short: undefined })
  })

  it('above the hard limit takes no second worker while the first has yet to go', async () => {
    const pools = [{ name: 'calm', idleMs: 500, isShrinking: true, workers: ['ready', 'ready'] }] as const
    assert.deepEqual(await checked(pools, { options }), { nudged: [], mayGrow: false, short: 2 })
  })

  it('takes no worker from a single process, however much memory that has', async () => {
    const pools = [{ name: 'calm', idleMs: 500, workers: ['ready'] }] as const
    const small = { ...options, softRssBytes: 1, hardRssBytes: 2 }
    assert.deepEqual(await checked(pools, { options: small }), {
      nudged: [],
      mayGrow: false,
      short: undefined,
    })
  })
})
