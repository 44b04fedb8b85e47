import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { arrivalsOf, PATTERNS } from '#src/doors/cli/scaling/load.js'
import { ALGORITHMS } from '#src/runtime/supervisor/scaling/algorithms.js'
import { fixed, MAXIMUM, run } from '../helpers/simulated.js'

const GOAL_MS = 250

describe('latency, simulated', () => {
  for (const [name, pattern] of Object.entries(PATTERNS))
    for (const seed of [1, 2])
      it(`${name} (${seed}): keeps its goal with few processes`, async () => {
        const arrivals = arrivalsOf(pattern, MAXIMUM, seed)
        const own = await run('latency', arrivals, pattern.seconds)
        const full = await fixed(arrivals, pattern.seconds)
        const names = ALGORITHMS.map(algorithm => algorithm.name).filter(each => each !== 'manual')
        const others = await Promise.all(names.map(each => run(each, arrivals, pattern.seconds)))
        const good = others.filter(({ p95Ms }) => p95Ms <= GOAL_MS).map(other => other.processSeconds)
        assert.ok(full.p95Ms < GOAL_MS, 'a fixed pool of sixteen processes reaches the goal')
        assert.ok(own.p95Ms <= GOAL_MS, `p95 ${own.p95Ms} ms`)
        const seen = `${own.processSeconds} process seconds`
        assert.ok(own.processSeconds <= 1.1 * Math.min(...good), `${seen}, the cheapest ${Math.min(...good)}`)
        assert.ok(own.processSeconds <= 0.7 * full.processSeconds, `${seen}, fixed ${full.processSeconds}`)
      })
})

describe('latency, simulated with few processors that start all workers', () => {
  for (const [processors, startSeconds] of [
    [2, 0.1],
    [2, 0.15],
    [4, 0.4],
  ] as const)
    for (const seed of [1, 2])
      it(`keeps its goal in bursts: ${processors} processors, ${startSeconds} s per start (${seed})`, async () => {
        const { burst } = PATTERNS
        assert.ok(burst !== undefined)
        const arrivals = arrivalsOf(burst, MAXIMUM, seed)
        const own = await run('latency', arrivals, burst.seconds, { processors, startSeconds })
        const full = await fixed(arrivals, burst.seconds)
        assert.ok(own.p95Ms <= GOAL_MS, `p95 ${own.p95Ms} ms`)
        assert.ok(own.processSeconds <= 0.5 * full.processSeconds, `${own.processSeconds} process seconds`)
      })
})
