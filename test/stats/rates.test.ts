import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { RateCounter } from '#src/runtime/stats/rates.js'

const MINUTE = 60_000

describe('rates', () => {
  it('match an even stream over 1, 5 and 15 minutes', () => {
    const start = 1_234_567
    const counter = new RateCounter(start)
    let now = start
    for (; now < start + 20 * MINUTE; now += 100) counter.add(1, now)
    const { m1, m5, m15 } = counter.rate(now)
    for (const rate of [m1, m5, m15]) assert.ok(Math.abs(rate - 10) < 0.5, `${[m1, m5, m15]}`)
  })

  it('fall to 0, those over a shorter time first', () => {
    const counter = new RateCounter(0)
    counter.add(600, 1000)
    const after = (minutes: number) => counter.rate(minutes * MINUTE + 6000)
    assert.deepEqual([after(1).m1, after(1).m5 > 0, after(1).m15 > 0], [0, true, true])
    assert.deepEqual([after(5).m5, after(5).m15 > 0], [0, true])
    assert.equal(after(15).m15, 0)
  })

  it('are per second since the start while that is not long ago', () => {
    const counter = new RateCounter(100_000)
    counter.add(50, 104_000)
    const { m1, m15 } = counter.rate(110_000)
    assert.deepEqual([m1, m15], [5, 5])
  })

  it('count all of the last 15 minutes, whatever the gaps', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(200_000), fc.integer({ min: 1, max: 9 }))), steps => {
        const counter = new RateCounter(0)
        let now = 0
        const added: Array<[number, number]> = []
        for (const [gap, count] of steps) {
          now += gap
          counter.add(count, now)
          added.push([now, count])
        }
        now = Math.max(now, 15 * MINUTE)
        const young = added
          .filter(([at]) => at > now - 15 * MINUTE)
          .reduce((sum, [, count]) => sum + count, 0)
        const all = added
          .filter(([at]) => at > now - 15 * MINUTE - 5000)
          .reduce((sum, [, count]) => sum + count, 0)
        const seconds = (15 * MINUTE) / 1000
        const { m15 } = counter.rate(now)
        assert.ok(m15 * (seconds + 5) >= young - 1e-6 && m15 * seconds <= all + 1e-6, `${m15}`)
      }),
    )
  })
})
