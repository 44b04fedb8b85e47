import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import type { PoolScaling } from '#src/runtime/supervisor/pool-options.js'
import { EAGER_PACE_MS, type Snapshot } from '#src/runtime/supervisor/scaling/algorithm.js'
import { drop, leftIn } from '../helpers/files.js'
import { closePools, type PoolSettings, poolOf } from '../helpers/pool.js'
import { OPTIONS } from '../helpers/scaling.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const HANDLER = 'export default () => -2'
/** Before the next scan of the spool, which is one more reason to look. */
const SOON_MS = 5000

afterEach(closePools)

/** Returns an algorithm that remembers what it was asked. */
function spying(isEager = false, answer = ({ target }: Snapshot) => target) {
  const asked: Snapshot[] = []
  const decide = (snapshot: Snapshot) => {
    asked.push(snapshot)
    return { target: answer(snapshot), state: undefined, reason: 'as told' }
  }
  const algorithm = { name: 'spy', isEager, decide }
  const scaling: PoolScaling = {
    ...{ algorithm, initial: 2 },
    options: { ...OPTIONS, minimum: 1, maximum: 4 },
  }
  return { asked, scaling }
}

async function poolWith(scaling: PoolScaling, settings: PoolSettings = {}, handler = HANDLER) {
  const spool = spoolDirectory()
  const opened = poolOf(spool, handler, { processes: 4, size: { scaling }, ...settings })
  await opened.run()
  await until('both workers are ready', () =>
    [...opened.pool.workers].every(({ state }) => state === 'ready'),
  )
  assert.equal(opened.pool.workers.size, 2)
  return { ...opened, spool }
}

const passed = (ms: number) => {
  const from = performance.now()
  return until(`${ms} ms have passed`, () => performance.now() > from + ms)
}

describe('the size of a pool', () => {
  it('that grows by many has its workers spawned a few at a time, and others are heard in between', async () => {
    const { pool, ports } = poolOf(spoolDirectory(), HANDLER, { processes: 20 })
    await pool.start()
    const first = ports.length
    pool.complete()
    pool.complete()
    assert.ok(ports.length <= first + 4, `${ports.length - first} at once`)
    const seen = new Set<number>()
    await until('all are spawned', () => seen.add(ports.length) && ports.length === 20)
    assert.ok(seen.size > 1)
    await until('all are ready', () => [...pool.workers].every(({ state }) => state === 'ready'))
    assert.equal(pool.workers.size, 20)
  })

  it('is frozen during a reload, whoever asks for another one, and no algorithm is asked', async () => {
    const [before, after] = [spying(true), spying(true, () => 3)]
    const { pool, feed, spool } = await poolWith(before.scaling)
    await passed(2 * EAGER_PACE_MS) // until then it may be asked once more
    const replacement = await pool.prepare({ ...pool.options, scaling: after.scaling })
    before.asked.length = 0
    pool.size.tick(true)
    drop(spool)
    feed.look()
    await until('a task has come and gone', () => leftIn(spool).length === 0)
    await passed(2 * EAGER_PACE_MS)
    assert.equal(pool.size.nudge(1, 'by hand'), false)
    assert.deepEqual([pool.stats.wanted, before.asked, after.asked], [2, [], []])
    const committed = replacement.commit()
    pool.size.tick(true)
    pool.size.look()
    assert.deepEqual([pool.stats.wanted, before.asked, after.asked], [2, [], []])
    await committed
    await until('the new algorithm is asked', () => pool.stats.wanted === 3, SOON_MS)
    assert.deepEqual(before.asked, [])
  })

  it('goes to 0 for an idle pool only after a reload has ended, however long the pool is idle', async () => {
    const idleMs = 200
    const { scaling } = spying()
    const { pool } = await poolWith(scaling, { size: { scaling, idleMs } })
    const replacement = await pool.prepare(pool.options)
    await passed(2 * idleMs)
    assert.equal(pool.stats.wanted, 2)
    await replacement.commit()
    await until('the pool has gone to sleep', () => pool.stats.wanted === 0)
  })

  it('that people ask for during a reload takes effect after it', async () => {
    const { scaling } = spying()
    const { pool } = await poolWith(scaling)
    const replacement = await pool.prepare(pool.options)
    pool.size.set({ to: 3 }, 'by hand')
    assert.deepEqual([pool.stats.wanted, pool.stats.present], [3, 2])
    pool.size.set({ by: 1 }, 'by hand')
    assert.throws(() => pool.size.set({ by: 1 }, 'by hand'), /expected 1 to 4 processes, got 5/)
    assert.equal(pool.workers.size, 2)
    await replacement.commit()
    assert.equal(pool.stats.wanted, 4)
    await until('there are four workers', () => pool.workers.size === 4)
  })

  it('that people ask for takes effect after a reload that is given up, too', async () => {
    const { scaling } = spying()
    const { pool } = await poolWith(scaling)
    const replacement = await pool.prepare(pool.options)
    pool.size.set({ to: 3 }, 'by hand')
    replacement.abandon()
    assert.equal(pool.stats.wanted, 3)
  })

  it('that people ask for takes no effect after a reload during which the pool is stopped', async () => {
    const { scaling } = spying()
    const { pool, events } = await poolWith(scaling)
    const scaled: unknown[] = []
    events.on('pool-scaled', each => void scaled.push(each))
    const replacement = await pool.prepare(pool.options)
    pool.size.set({ to: 3 }, 'by hand')
    await pool.stop()
    replacement.abandon()
    assert.deepEqual(scaled, [])
  })

  it('is decided by an eager algorithm between ticks, too: at once, and once more after its pace', async () => {
    const { asked, scaling } = spying(true)
    const { pool } = await poolWith(scaling)
    await passed(2 * EAGER_PACE_MS)
    asked.length = 0
    for (let i = 0; i < 5; i++) pool.size.look()
    assert.equal(asked.length, 1)
    await until('the delayed look has come', () => asked.length === 2, SOON_MS)
    const [first, second] = asked.map(({ nowMicros }) => nowMicros / 1000)
    assert.ok((second ?? 0) - (first ?? 0) >= EAGER_PACE_MS - 2, `after ${(second ?? 0) - (first ?? 0)} ms`) // timers round
    await passed(3 * EAGER_PACE_MS)
    assert.equal(asked.length, 2)
  })

  it('is not decided by an algorithm between ticks if people have set it, or if the algorithm is lazy', async () => {
    const [eager, lazy] = [spying(true), spying(false)]
    const byHand = await poolWith(eager.scaling)
    await passed(2 * EAGER_PACE_MS)
    byHand.pool.size.look()
    byHand.pool.size.look()
    byHand.pool.size.set({ to: 2 }, 'by hand')
    eager.asked.length = 0
    const other = await poolWith(lazy.scaling)
    other.pool.size.look()
    await passed(3 * EAGER_PACE_MS)
    assert.deepEqual([eager.asked, lazy.asked], [[], []])
  })

  it('that people have set while the pool was idle stays, however long it is idle, until it is set to auto', async () => {
    const idleMs = 1000
    const { pool, run } = poolOf(spoolDirectory(), HANDLER, { processes: 3, size: { idleMs } })
    await run()
    await until('all are ready', () => [...pool.workers].every(({ state }) => state === 'ready'))
    pool.size.look()
    pool.size.set({ to: 2 }, 'by hand')
    await passed(2 * idleMs)
    assert.deepEqual([pool.stats.wanted, pool.stats.size.isByHand], [2, true])
    pool.size.set('auto', 'by hand')
    await until('the pool sleeps', () => pool.stats.wanted === 0, 10 * idleMs)
  })
})

describe('the backlog', () => {
  it('is not 0 for an algorithm while a worker looks through tasks of which none is due', async () => {
    const { asked, scaling } = spying()
    const gate = join(workspace(), 'gate')
    const { pool, feed, spool } = await poolWith(
      scaling,
      {},
      `import { existsSync } from 'node:fs'
      import { setTimeout } from 'node:timers/promises'
      export default async () => {
        while (!existsSync(${JSON.stringify(gate)})) await setTimeout(2)
        return -2
      }`,
    )
    const told: Array<readonly [told: number | undefined, ready: number]> = []
    try {
      for (let i = 0; i < 30; i++) drop(spool)
      feed.look()
      const isSorting = () => [...pool.workers].some(({ work }) => work.activity.isSorting)
      await until('two of thirty are known to run', () => feed.state.ready === 28 && !isSorting())
      const tomorrow = Date.now() / 1000 + 86_400
      for (let i = 0; i < 10_000; i++) drop(spool, undefined, undefined, tomorrow)
      feed.look()
      await until('all are seen', () => feed.state.ready === 10_028)
      pool.size.tick(true)
    } finally {
      writeFileSync(gate, '')
    }
    const looking = setInterval(() => {
      if (![...pool.workers].some(({ work }) => work.activity.isSorting)) return
      pool.size.tick(true)
      told.push([asked.at(-1)?.backlog, feed.state.ready])
    }, 0)
    await until('all are sorted', () => feed.state.ready === 0)
    clearInterval(looking)
    assert.ok(
      told.some(([, ready]) => ready > 28),
      `${told.length}`,
    )
    // what is taken back from a process that the machine held up is not counted twice
    for (const [count = 0, ready] of told)
      assert.ok(count <= ready && (count > 0 || ready <= 28), `${count} of ${ready}`)
  })
})

describe('a worker that is recycled', () => {
  for (const why of ['max-tasks', 'lifetime'] as const)
    it(`does not count as shrinking for an algorithm, nor its successor as growth: ${why}`, async () => {
      const { asked, scaling } = spying()
      const { pool, events, feed, spool, ports } = await poolWith(scaling, {
        worker: { maxTasks: why === 'max-tasks' ? 2 : 0 },
      })
      const changes: number[] = []
      events.on('pool-scaled', ({ to }) => changes.push(to))
      events.on('worker-recycling', () => pool.size.tick(true)) // it drains, and its successor is not there yet
      for (let i = 0; i < 12; i++) drop(spool)
      feed.look()
      if (why === 'lifetime') {
        const [oldest] = pool.workers
        assert.ok(oldest !== undefined)
        pool.recycle(oldest)
        pool.size.tick(true)
      }
      await until('all have run', () => leftIn(spool).length === 0)
      await until('both workers are ready', () => [...pool.workers].every(({ state }) => state === 'ready'))
      pool.size.tick(true)
      assert.ok(asked.length >= 2 && ports.length > 2, `${asked.length} ticks, ${ports.length} workers`)
      assert.deepEqual(new Set(asked.map(({ workers, delayed }) => workers.length + delayed)), new Set([2]))
      const ran = new Map<number, number>()
      for (const { number, busyMicros } of asked.flatMap(({ workers }) => workers)) {
        assert.ok(busyMicros >= (ran.get(number) ?? 0), `worker ${number} ran for less than before`)
        ran.set(number, busyMicros)
      }
      assert.deepEqual(changes, [])
    })

  it('leaves its number to the worker that replaces it in a reload', async () => {
    const { asked, scaling } = spying()
    const { pool, ports } = await poolWith(scaling)
    pool.size.tick(true)
    await (await pool.prepare(pool.options)).commit()
    await until('the old workers are gone', () => pool.workers.size === 2)
    pool.size.tick(true)
    assert.equal(ports.length, 4)
    const numbers = asked.map(({ workers }) => workers.map(({ number }) => number))
    assert.deepEqual(numbers[0], [1, 2])
    assert.deepEqual(numbers.at(-1), [1, 2])
  })
})
