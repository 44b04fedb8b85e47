import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Histogram } from '#src/base/task/histogram.js'

describe('a histogram', () => {
  it('knows each duration to within a factor of 1.5', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 32 - 1 }), microseconds => {
        const histogram = new Histogram()
        histogram.add(microseconds)
        const bound = histogram.quantile(1)
        return bound > microseconds && bound <= Math.max(2, microseconds * 1.5)
      }),
    )
  })

  it('counts durations beyond its range at its ends', () => {
    const histogram = new Histogram()
    for (const microseconds of [0, 0.2, 2 ** 40]) histogram.add(microseconds)
    assert.equal(histogram.count, 3)
    assert.ok(histogram.quantile(0.6) <= 2)
    assert.equal(histogram.quantile(1), 2 ** 32)
  })

  it('that is merged from parts equals the histogram of all durations', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.integer({ min: 0, max: 10 ** 9 }))), parts => {
        const [all, merged] = [new Histogram(), new Histogram()]
        for (const part of parts) {
          const histogram = new Histogram()
          for (const microseconds of part) {
            all.add(microseconds)
            histogram.add(microseconds)
          }
          merged.merge(JSON.parse(JSON.stringify(histogram.pack())))
        }
        assert.deepEqual([merged.count, merged.sum, merged.pack()], [all.count, all.sum, all.pack()])
        assert.equal(
          all.sum,
          parts.flat().reduce((sum, each) => sum + each, 0),
        )
      }),
    )
  })
})
