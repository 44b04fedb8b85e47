import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NamedAlgorithm } from '#src/supervisor/scaling/algorithms.js'
import { simulate } from '#src/supervisor/scaling/simulate.js'
import { SECOND } from '../../helpers/scaling.js'
import { SCALING } from '../../helpers/simulated.js'

/** Asks for so many workers at the n-th check. */
function scripted(targets: readonly number[]): NamedAlgorithm {
  const open = () => {
    let tick = 0
    return () => ({ target: targets[tick++] ?? targets.at(-1) ?? 1, state: undefined, reason: 'scripted' })
  }
  return { name: 'scripted', isEager: false, introduce: () => [], open }
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
      eagerMicros: SECOND,
      untilMicros: 20 * SECOND,
      giveUpMicros: 0,
    },
  )
}

describe('simulate', () => {
  it('lets workers that start at the same time wait for processors', () => {
    const runs = [10, 5, 5, 5, 5] // one worker is busy with the first; four more are asked for after a second
    assert.equal(simulated([5], runs, 16).maxMs, 1400)
    assert.equal(simulated([5], runs, 2).maxMs, 1800) // the next two begin when two are ready
    assert.equal(simulated([5], runs, 1).maxMs, 2600)
  })

  it('counts turns when workers come and go, not when they are asked to', () => {
    const runs = [3.5, 3.5]
    assert.equal(simulated([2, 1], runs, 16).reversals, 1)
    assert.equal(simulated([2, 1, 2], runs, 16).reversals, 0) // both were busy: none had gone when two were wanted again
  })
})
