import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { ScalingOptions } from '#src/runtime/supervisor/scaling/algorithm.js'
import { ALGORITHMS, Scaler } from '#src/runtime/supervisor/scaling/algorithms.js'
import { OPTIONS, SECOND, snapshot } from '../../helpers/scaling.js'

const COUNT = fc.integer({ min: 1, max: 6 })
const options = fc
  .record({
    minimum: fc.nat(6),
    more: COUNT,
    step: COUNT,
    overload: COUNT,
    idle: COUNT,
    alert: fc.nat(20),
    nonzero: COUNT,
  })
  .map(({ minimum, more, alert, nonzero, ...given }): ScalingOptions => {
    const busyness = {
      ...OPTIONS.busyness,
      multiplier: 2,
      backlogAlert: alert,
      backlogStep: given.step,
      backlogNonzero: nonzero,
    }
    return { ...OPTIONS, ...given, minimum, maximum: minimum + more, busyness }
  })
/** The state of the pool at each second, and whether the pool reaches its target. */
const ticks = fc.array(
  fc.record({
    states: fc.array(fc.constantFrom('b', 'b', 'i', 'i', 's', 'd'), { minLength: 12, maxLength: 12 }),
    backlog: fc.oneof(fc.constant(0), fc.nat(40)),
    canSpawn: fc.boolean(),
    arrived: fc.nat(50),
    obeys: fc.boolean(),
  }),
  { minLength: 20, maxLength: 60 },
)

describe('whatever the state of the pool', () => {
  for (const algorithm of ALGORITHMS)
    it(`${algorithm.name} keeps the limits, and spawns at most \`step\` at once`, () => {
      fc.assert(
        fc.property(options, ticks, (scaling, seen) => {
          const scaler = new Scaler(algorithm)
          let [target, nowMicros] = [scaling.minimum, 0]
          let present = target
          for (const { states, backlog, canSpawn, arrived, obeys } of seen) {
            nowMicros += SECOND
            const places = states.slice(0, present)
            const living = places.filter(state => state !== 'd').join('')
            const delayed = present - living.length
            const given = { options: scaling, nowMicros, delayed, target, backlog, canSpawn, arrived }
            const decision = scaler.decide(snapshot(living, given))
            assert.equal(decision.problem, undefined)
            target = decision.target
            assert.ok(target >= scaling.minimum && target <= scaling.maximum, `${target}: ${decision.reason}`)
            const grown = target - Math.max(present, scaling.minimum)
            const most = !canSpawn ? 0 : algorithm.name === 'cheap' ? scaling.maximum : (scaling.step ?? 1)
            assert.ok(grown <= most, `${grown} more: ${decision.reason}`)
            if (target > present || obeys) present = target
          }
        }),
        { numRuns: 60 },
      )
    })
})
