import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Histogram } from '#src/base/task/histogram.js'
import { arrivalsOf } from '#src/doors/cli/scaling/load.js'
import { loadAlgorithm } from '#src/runtime/supervisor/scaling/algorithms.js'
import { remembering, SECOND, snapshot, workers } from '../../helpers/scaling.js'
import { fixed, MAXIMUM, run, SCALING } from '../../helpers/simulated.js'

describe('latency, simulated', () => {
  it('varies by at most one process during ten minutes of steady load', async () => {
    const steady = { summary: '', seconds: 660, run: 0.1, load: () => 0.375 }
    const { seconds } = await run('latency', arrivalsOf(steady, MAXIMUM, 3), 660)
    const settled = seconds.slice(60, 660).map(second => second.workers)
    assert.ok(Math.max(...settled) - Math.min(...settled) <= 1, JSON.stringify([...new Set(settled)]))
    const turns = settled.filter((count, at) => at > 0 && count !== settled[at - 1])
    assert.ok(turns.length <= 2, `${turns.length} changes`)
  })

  it('runs a thousand simultaneous tasks nearly as fast as sixteen fixed workers, and then shrinks to one', async () => {
    const spike = {
      arrivedAt: new Float64Array(1000).fill(10 * SECOND),
      runMicros: new Float64Array(1000).fill(0.1 * SECOND),
    }
    const own = await run('latency', spike, 620)
    const full = await fixed(spike, 620)
    assert.ok(own.doneMs - 10_000 <= 1.4 * (full.doneMs - 10_000), `${own.doneMs - 10_000} ms`)
    assert.equal(own.seconds.at(-1)?.workers, 1)
  })
})

describe('latency', () => {
  it('does not grow beyond what helps', async () => {
    const decide = remembering(await loadAlgorithm('latency'))
    let [target, most] = [2, 2]
    for (let second = 1; second < 60; second++) {
      // whatever the number of workers, ten tasks end per second, and fifteen arrive
      const runs = new Histogram()
      for (let task = 0; task < 10; task++) runs.add((target * SECOND) / 10)
      const seen = {
        options: { ...SCALING, step: 1 },
        nowMicros: second * SECOND,
        target,
        backlog: 5 * second,
      }
      const states = 'b'.repeat(target)
      const decision = decide(
        snapshot(states, { ...seen, arrived: 15, finished: 10, runs, workers: workers(states) }),
      )
      target = decision.target
      most = Math.max(most, target)
    }
    assert.ok(most < MAXIMUM / 2, `${most} workers`)
  })

  it('starts as many workers at once as there are processors, and more if those take long', async () => {
    const decide = remembering(await loadAlgorithm('latency'))
    const options = { ...SCALING, processors: 2 }
    const runs = new Histogram()
    runs.add(0.1 * SECOND)
    const at = (seconds: number, states: string) =>
      decide(
        snapshot(states, {
          options,
          nowMicros: seconds * SECOND,
          backlog: 500,
          arrived: 500,
          finished: 1,
          runs,
        }),
      ).target
    assert.equal(at(1, 'b'), 3)
    assert.equal(at(1.1, 'bss'), 3)
    assert.equal(at(1.2, 'bbs'), 4)
    assert.equal(at(1.6, 'bbs'), 5)
  })

  it('adds no worker for a queue that soon ends, and all workers for one that does not', async () => {
    const after = async (backlog: number) => {
      const decide = remembering(await loadAlgorithm('latency'))
      for (let second = 1; second < 60; second++) {
        const [runs, waits] = [new Histogram(), new Histogram()]
        for (let task = 0; task < 40; task++) runs.add(0.1 * SECOND)
        for (let task = 0; task < 40; task++) waits.add(task < 4 ? SECOND : 1) // some are late, so that queues count
        const seen = { nowMicros: second * SECOND, arrived: 40, finished: 40, runs, waits }
        decide(snapshot('bbbbbb', { options: SCALING, ...seen }))
      }
      return decide(snapshot('bbbbbb', { options: SCALING, nowMicros: 60 * SECOND, arrived: 40, backlog }))
        .target
    }
    assert.equal(await after(12), await after(0))
    assert.equal(await after(300), MAXIMUM)
  })

  it('grows by no more than a given step', async () => {
    const decide = remembering(await loadAlgorithm('latency'))
    const given = { options: { ...SCALING, step: 3 }, backlog: 1000, arrived: 1000 }
    assert.equal(decide(snapshot('bb', given)).target, 4)
    const runs = new Histogram()
    runs.add(SECOND)
    assert.equal(decide(snapshot('bbbb', { ...given, runs, nowMicros: 2 * SECOND })).target, 7)
  })

  it('does not grow when all respawns wait', async () => {
    const decide = remembering(await loadAlgorithm('latency'))
    for (let second = 1; second < 9; second++) {
      const given = { options: SCALING, nowMicros: second * SECOND, delayed: 2, backlog: 99, arrived: 9 }
      assert.equal(decide(snapshot('', given)).target, 2)
    }
  })

  it('does not grow without tasks that could run, nor while nothing may be spawned', async () => {
    const decide = remembering(await loadAlgorithm('latency'))
    for (let second = 1; second < 60; second++) {
      const nowMicros = second * SECOND
      assert.equal(decide(snapshot('i', { options: SCALING, nowMicros })).target, 1)
    }
    const held = { options: SCALING, nowMicros: 60 * SECOND, backlog: 1000, arrived: 1000, canSpawn: false }
    assert.equal(decide(snapshot('b', held)).target, 1)
  })
})
