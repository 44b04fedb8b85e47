import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { SimulatedStarts, simulate } from '#src/doors/cli/scaling/simulate.js'
import type { Snapshot } from '#src/runtime/supervisor/scaling/algorithm.js'
import type { NamedAlgorithm } from '#src/runtime/supervisor/scaling/algorithms.js'
import { SECOND } from '../../helpers/scaling.js'
import { SCALING } from '../../helpers/simulated.js'

/** Returns an algorithm that asks for `targets[n]` workers at check n, and then for the last of these numbers. */
function scripted(targets: readonly number[]): NamedAlgorithm {
  const decide = (_snapshot: Snapshot, tick: unknown = 0) => ({
    target: targets[Number(tick)] ?? targets.at(-1) ?? 1,
    state: Number(tick) + 1,
    reason: 'scripted',
  })
  return { name: 'scripted', decide }
}

function simulated(targets: readonly number[], runs: readonly number[], processors: number) {
  return simulate(
    scripted(targets),
    {
      arrivedAt: new Float64Array(runs.length),
      runMicros: Float64Array.from(runs, seconds => seconds * SECOND),
    },
    {
      scaling: { ...SCALING, processors },
      initial: 1,
      tickMicros: SECOND,
      startMicros: 0.4 * SECOND,
      untilMicros: 20 * SECOND,
      giveUpMicros: 0,
    },
  )
}

describe('simulate', () => {
  it('lets workers that start at the same time share the processors', () => {
    const runs = [10, 5, 5, 5, 5] // one worker is busy with the first; four more are asked for after a second
    assert.equal(simulated([5], runs, 16).maxMs, 1400)
    assert.equal(simulated([5], runs, 2).maxMs, 1800) // at half the pace
    assert.equal(simulated([5], runs, 1).maxMs, 2600)
  })

  it('counts reversals when workers come and go, not when they are asked to', () => {
    const runs = [3.5, 3.5]
    assert.equal(simulated([2, 1], runs, 16).reversals, 1)
    assert.equal(simulated([2, 1, 2], runs, 16).reversals, 0) // both were busy: none had gone when two were wanted again
  })
})

describe('simulated starts', () => {
  /** Returns when each start is ready. */
  function readyTimes(begins: readonly number[], processors: number): number[] {
    const starts = new SimulatedStarts(SECOND, processors)
    const ready: number[] = []
    for (const begin of begins) {
      while (starts.next <= begin) ready.push(...starts.goOn(starts.next))
      starts.begin(begin)
    }
    while (starts.next < Number.POSITIVE_INFINITY) ready.push(...starts.goOn(starts.next))
    return ready
  }

  it('go on at the pace that their number allows, which changes as they come and go', () => {
    assert.deepEqual(readyTimes([0, SECOND / 2], 1), [1.5 * SECOND, 2 * SECOND])
    assert.deepEqual(readyTimes([0, SECOND / 2], 2), [SECOND, 1.5 * SECOND])
    assert.deepEqual(readyTimes([0, 0, 0], 2), [1.5 * SECOND, 1.5 * SECOND, 1.5 * SECOND])
  })

  it('are ready in their order, none too soon, and all as soon as the processors can', () => {
    const begins = fc
      .array(fc.nat(5 * SECOND), { minLength: 1, maxLength: 12 })
      .map(times => times.toSorted((a, b) => a - b))
    fc.assert(
      fc.property(begins, fc.integer({ min: 1, max: 4 }), (times, processors) => {
        const ready = readyTimes(times, processors)
        assert.equal(ready.length, times.length)
        assert.deepEqual(
          ready,
          ready.toSorted((a, b) => a - b),
        )
        for (const [at, end] of ready.entries()) {
          const begin = times[at] ?? 0
          assert.ok(end >= begin + SECOND - 1, `${end}, begun at ${begin}`)
          // even if all of them had begun with it
          assert.ok(end <= begin + (SECOND * times.length) / Math.min(processors, times.length) + 1)
        }
      }),
    )
  })
})
