import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import type { Emitter } from '#src/base/events/emitter.js'
import { Histogram } from '#src/base/task/histogram.js'
import { loadAlgorithm } from '#src/runtime/supervisor/scaling/algorithms.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { closePools, poolOf } from '../helpers/pool.js'
import { SCALING_DEFAULTS } from '../helpers/scaling.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

afterEach(closePools)

/** Returns the refs that are reported as SPOOL_OK, even late, by a slow worker from which they were withdrawn. */
function doneOf(events: Emitter): string[] {
  const refs: string[] = []
  events.on('tasks-reported', ({ done, reports }) => {
    refs.push(...done, ...reports.filter(({ kind }) => kind === 'ok').map(({ ref }) => ref))
  })
  return refs
}

const OK = 'export default () => -2'

/** `spooler-cheap` */
const CHEAP = {
  scaling: {
    algorithm: await loadAlgorithm('cheap'),
    options: { ...SCALING_DEFAULTS, minimum: 0, maximum: 2, processors: 2 },
    initial: 1,
  },
}

describe('a pool of workers in this process', () => {
  it('runs all due tasks, once each, and stops', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 200; i++) drop(spool)
    const { pool, events, ports, run } = poolOf(spool, OK)
    const done = doneOf(events)
    await run()
    await until('all are reported', () => done.length === 200)
    assert.equal(new Set(done).size, 200)
    assert.deepEqual(leftIn(spool), [])
    await pool.stop()
    assert.equal(ports.length, 2)
    for (const port of ports) assert.deepEqual(await port.whenExited, { code: 30, signal: null })
  })

  it('does not count time in which this process was stopped as run time, even if it is stopped twice at once', async t => {
    let stoppedMs = 0
    const { now } = performance
    t.mock.method(performance, 'now', () => now.call(performance) + stoppedMs)
    const spool = spoolDirectory()
    drop(spool)
    const never = 'export default () => new Promise(() => {})'
    const { events, run } = poolOf(spool, never, { processes: 1, worker: { harakiriMs: 3000 } })
    let [hasBegun, hasOverrun, checks] = [false, false, 0]
    events.on('task-started', () => {
      hasBegun = true
    })
    events.on('worker-overran', () => {
      hasOverrun = true
    })
    await run()
    await until('the task has begun', () => hasBegun)
    const soon = setImmediate
    stoppedMs += 2000
    t.mock.method(globalThis, 'setImmediate', (check: () => void) => {
      stoppedMs += 5000
      return soon(() => {
        check()
        checks++
      })
    })
    await until('the run time was checked twice', () => checks >= 2 || hasOverrun)
    assert.ok(!hasOverrun)
  })

  it('starts no process for a reload once it is killed', async () => {
    const { pool, ports, run } = poolOf(spoolDirectory(), OK)
    await run()
    await until(
      'two are ready',
      () => [...pool.workers].filter(({ state }) => state === 'ready').length === 2,
    )
    const replacement = await pool.prepare(pool.options)
    const killed = pool.kill()
    await replacement.commit()
    await killed
    assert.equal(ports.length, 3)
  })

  it('stalls when tasks are due, a worker is idle and nothing is given out, and not otherwise', async () => {
    const spool = spoolDirectory()
    drop(spool)
    const { pool, feed, events } = poolOf(spool, OK)
    const done = doneOf(events)
    await pool.start()
    await feed.open(() => {})
    pool.complete()
    assert.equal(feed.state.ready, 1)
    await until('the pool stalls, because it was not told to begin', () => pool.stalledMs > 20)
    pool.begin()
    await until('the task has run', () => done.length === 1)
    assert.equal(pool.stalledMs, 0)
    await pool.stop()
  })

  it('reports how long runs took and tasks waited, even for workers that start later', async () => {
    const spool = spoolDirectory()
    const { feed, events, ports, run } = poolOf(spool, OK)
    const done = doneOf(events)
    const runs = async (count: number) => {
      const before = done.length
      for (let i = 0; i < count; i++) drop(spool, undefined, undefined, Date.now() / 1000 - 100)
      feed.look()
      await until('the tasks are reported', () => done.length === before + count)
    }
    const [ran, waited] = [new Histogram(), new Histogram()]
    events.on('run-times', times => {
      ran.merge(times.ran)
      waited.merge(times.waited)
    })
    await run()
    await runs(30)
    assert.deepEqual([ran.count, waited.count], [30, 30])
    assert.ok(waited.quantile(0.1) > 90e6, `${waited.quantile(0.1)} µs`)
    for (const port of ports) port.kill()
    await until('other workers have taken their places', () => ports.length === 4)
    await runs(20)
    assert.equal(ran.count, 50)
  })

  it('runs a task that a worker parked because it had not heard yet that the pause was over', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a', packet({ kind: 'a' }))
    drop(spool, 'b', packet({ kind: 'b' }))
    const pause = (...kinds: string[]) =>
      pool.halt.setPauses({
        pauses: kinds.map(kind => ({ pair: ['kind', kind], sinceMs: 0, untilMs: null })),
      })
    const { pool, feed, run } = poolOf(spool, OK, {
      processes: 1,
      sending(message) {
        if (message.type === 'reports' && JSON.stringify(message).includes('paused')) pause('b')
      },
    })
    pause('a', 'b')
    await run()
    await until('task a has run', () => leftIn(spool).join() === 'b', 5000)
    await until('task b waits', () => feed.state.parked.paused === 1)
  })

  it('runs tasks whose names the workers did not know once a reload has replaced these workers', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a', packet({ task: 'new', args: '[]' }))
    const { pool, feed, run } = poolOf(spool, 'export default () => 0', { processes: 2 })
    await run()
    await until('no handler knows the task', () => feed.state.parked['unknown-name'] === 1)
    const file = join(workspace(), 'new.mjs')
    writeFileSync(file, OK)
    const { worker } = pool.options
    const chain = [{ kind: 'javascript', file } as const]
    const replacement = await pool.prepare({ ...pool.options, worker: { ...worker, chain } })
    await replacement.commit()
    await until('the task has run', () => leftIn(spool).length === 0, 5000)
  })

  it('replaces a worker that recycles', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 50; i++) drop(spool)
    const { pool, events, ports, run } = poolOf(spool, OK, { worker: { maxTasks: 10 } })
    let recycled = 0
    events.on('worker-recycling', () => recycled++)
    await run()
    await until('all have run', () => leftIn(spool).length === 0)
    assert.ok(recycled >= 4, `${recycled}`)
    await until('the workers are replaced', () => ports.length === recycled + 2)
    await pool.stop()
  })

  it('that is cheap has as many workers as there are tasks, and none when it is idle', async () => {
    const spool = spoolDirectory()
    const handler = `
      import { setTimeout } from 'node:timers/promises'
      export default async () => (await setTimeout(50), -2)`
    const { pool, feed, events, ports, run } = poolOf(spool, handler, { size: CHEAP })
    let isCheap = false
    events.on('spool-went-cheap', () => {
      isCheap = true
    })
    await run()
    assert.equal(ports.length, 1)
    for (let i = 0; i < 6; i++) drop(spool)
    feed.look()
    await until('all have run', () => leftIn(spool).length === 0)
    assert.equal(ports.length, 2)
    await until('no worker is left', () => isCheap && pool.workers.size === 0)
    drop(spool)
    feed.look()
    await until('one more has run', () => leftIn(spool).length === 0)
    assert.equal(ports.length, 3)
    await pool.stop()
  })

  it('replaces a worker that was killed, and gives its tasks to others', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 20; i++) drop(spool)
    const handler = `
      import { setTimeout } from 'node:timers/promises'
      const running = globalThis.running = new Set()
      export default async env => {
        running.add(env)
        await setTimeout(20)
        running.delete(env)
        return -2
      }`
    const { pool, events, ports, run } = poolOf(spool, handler)
    const running = () => (Reflect.get(globalThis, 'running') as Set<unknown>).size
    const died: number[] = []
    events.on('worker-died', ({ running }) => died.push(running.length))
    await run()
    await until(
      'some have run, and each process runs one',
      () => leftIn(spool).length < 18 && running() === 2,
    )
    ports[0]?.kill()
    await until('all have run', () => leftIn(spool).length === 0)
    assert.deepEqual(died, [1])
    assert.ok(ports.length >= 3)
    await pool.stop()
  })
})
