import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Histogram } from '#src/base/task/histogram.js'
import { REPORT_KINDS } from '#src/base/task/report.js'
import { eachOf, eachReport, Outbox } from '#src/runtime/ipc/reports.js'

describe('reports on their way to the master', () => {
  it('arrive as they were sent, through JSON', () => {
    const report = fc.record(
      {
        ref: fc.string(),
        name: fc.string(),
        kind: fc.constantFrom(...REPORT_KINDS),
        ranMs: fc.nat(),
        atMs: fc.nat(),
        reason: fc.constantFrom('alone', 'slot', 'paused', 'unknown-name'),
        id: fc.string(),
        detail: fc.string(),
      },
      { requiredKeys: ['ref', 'kind', 'ranMs'] },
    )
    fc.assert(
      fc.property(fc.array(report), reports => {
        const outbox = new Outbox(true)
        for (const [number, each] of reports.entries()) outbox.add(number, each)
        const message = JSON.parse(JSON.stringify(outbox.take([1], 5)))
        const got: object[] = []
        eachReport(
          message,
          number => ({ ref: reports[number]?.ref ?? '', notice: undefined }),
          (_, each) => got.push(each),
        )
        assert.deepEqual(
          got,
          reports.map(each => ({ ...each })),
        )
        assert.equal(outbox.isEmpty, true)
      }),
    )
  })

  it('carry good outcomes as numbers alone if there are no listeners, whatever their order', () => {
    const outcomes = fc.uniqueArray(fc.record({ number: fc.nat(200), isGood: fc.boolean() }), {
      selector: ({ number }) => number,
    })
    fc.assert(
      fc.property(outcomes, each => {
        const outbox = new Outbox(false)
        for (const { number, isGood } of each)
          outbox.add(number, { ref: `t${number}`, kind: isGood ? 'ok' : 'retry', ranMs: 1 })
        const message = JSON.parse(JSON.stringify(outbox.take([], 5)))
        const got = new Map<number, boolean>()
        eachOf(message.done, number => got.set(number, true))
        eachReport(
          message,
          number => ({ ref: `t${number}`, notice: undefined }),
          number => got.set(number, false),
        )
        assert.deepEqual(got, new Map(each.map(({ number, isGood }) => [number, isGood])))
        assert.equal(outbox.isEmpty, true)
      }),
    )
  })

  it('carry how long runs took and tasks waited, each time once', () => {
    const outbox = new Outbox(false)
    for (const [number, ranMs] of [0.5, 0.5, 30].entries()) {
      outbox.add(number, { ref: '', kind: 'ok', ranMs })
      outbox.addTimes(ranMs, 1000)
    }
    const { times, done } = JSON.parse(JSON.stringify(outbox.take([], 1)))
    assert.deepEqual(done, [0, 3])
    const ran = new Histogram()
    ran.merge(times.ran)
    const waited = new Histogram()
    waited.merge(times.waited)
    assert.deepEqual([ran.count, waited.count], [3, 3])
    assert.ok(ran.quantile(0.5) >= 500 && ran.quantile(0.5) < 750, `${ran.quantile(0.5)} µs`)
    assert.ok(ran.quantile(1) >= 30_000 && ran.quantile(1) < 45_000, `${ran.quantile(1)} µs`)
    assert.ok(waited.quantile(0.5) >= 1_000_000 && waited.quantile(0.5) < 1_500_000)
    assert.equal(outbox.take([1], 1).times, undefined)
    outbox.addTimes(1, 1)
    const again = outbox.take([], 1).times
    assert.deepEqual(
      [again?.ran.length, again?.waited.length],
      [3, 3],
      'each histogram has a sum and one bucket',
    )
  })

  it('of a batch that went well are two numbers', () => {
    const outbox = new Outbox(false)
    for (let number = 64; number < 128; number++) outbox.add(number, { ref: '', kind: 'ok', ranMs: 0 })
    assert.deepEqual(outbox.take([], 1).done, [64, 64])
  })
})
