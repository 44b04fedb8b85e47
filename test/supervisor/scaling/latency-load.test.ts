import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Histogram } from '#src/base/task/histogram.js'
import { arrivalsOf } from '#src/doors/cli/scaling/load.js'
import {
  arrivalRate,
  emptyLoad,
  type Load,
  learn,
  NO_RESERVE,
  noteLoad,
  type Reserve,
} from '#src/runtime/supervisor/scaling/latency.js'
import { SECOND, snapshot } from '../../helpers/scaling.js'

const LOOK_S = 0.05

/** Yields what is known at each look at tasks that arrive at random, `rate` of them per second. */
function* looks(rate: (second: number) => number, seconds: number, seed: number): Generator<Load> {
  const most = 400
  const pattern = { summary: '', seconds, run: 0.1, load: (second: number) => rate(second) / most }
  const { arrivedAt } = arrivalsOf(pattern, most * pattern.run, seed)
  let [load, next] = [emptyLoad(0), 0]
  for (let second = LOOK_S; second < seconds; second += LOOK_S) {
    const from = next
    while ((arrivedAt[next] ?? Number.POSITIVE_INFINITY) <= second * SECOND) next++
    load = noteLoad(load, snapshot('', { nowMicros: second * SECOND, arrived: next - from }))
    yield load
  }
}

const SEED = fc.nat(1_000_000)

describe('the arrival rate', () => {
  /** The number of random arrivals per second varies by its square root. */
  it('is known to within twice the variation of one second, while it stays the same', () => {
    fc.assert(
      fc.property(SEED, fc.integer({ min: 20, max: 200 }), (seed, rate) => {
        for (const load of [...looks(() => rate, 120, seed)].slice(30 / LOOK_S)) {
          const known = arrivalRate(load)
          assert.ok(
            Math.abs(known - rate) < 2 * Math.sqrt(rate),
            `${known}, not ${rate}, after ${load.atMicros / SECOND} s`,
          )
        }
      }),
      { numRuns: 20 },
    )
  })

  it('is known soon after it has changed', () => {
    fc.assert(
      fc.property(
        SEED,
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 60, max: 300 }),
        (seed, low, high) => {
          const isHigh = (second: number) => second >= 60 && second < 90
          const known = [...looks(second => (isHigh(second) ? high : low), 110, seed)].map(arrivalRate)
          const at = (second: number) => known[Math.round(second / LOOK_S)] ?? 0
          assert.ok(at(61.5) > 0.4 * high, `${at(61.5)} soon after ${high} began`)
          assert.ok(at(64) > 0.7 * high, `${at(64)} long after ${high} began`)
          assert.ok(at(94) < low + 0.25 * high, `${at(94)} after ${high} has become ${low}`)
        },
      ),
      { numRuns: 50 },
    )
  })
})

/** Tasks that arrive at once at the second `at`; `late` of them are late. */
interface Burst {
  readonly at: number
  readonly tasks: number
  readonly late: number
}

describe('workers in reserve', () => {
  /** Returns how many workers are kept in reserve after each second of these bursts. */
  function learnt(bursts: readonly Burst[], until = 0): number[] {
    let [load, reserve]: [Load, Reserve] = [emptyLoad(0), NO_RESERVE]
    const all: number[] = []
    const last = Math.max(until, (bursts.at(-1)?.at ?? 0) + 15)
    for (let second = 0; second <= last; second++) {
      const burst = bursts.find(({ at }) => at === second)
      const [waits, runs] = [new Histogram(), new Histogram()]
      for (let task = 0; task < (burst?.tasks ?? 0); task++) {
        waits.add(task < (burst?.late ?? 0) ? SECOND : 1)
        runs.add(0.1 * SECOND)
      }
      const seen = snapshot('i', { nowMicros: second * SECOND, waits, runs, arrived: waits.count })
      const after = noteLoad(load, seen)
      reserve = learn(reserve, seen, load, after)
      load = after
      all.push(reserve.workers)
    }
    return all
  }
  const every = (period: number, count: number, late: number) =>
    Array.from({ length: count }, (_, at) => ({ at: (at + 1) * period, tasks: 100, late }))

  it('are kept from the second burst with late tasks on, more after each, and given back one by one', () => {
    const workers = learnt(every(100, 3, 12), 1300)
    assert.deepEqual([workers[199], workers[215], workers[315]], [0, 2, 4])
    assert.deepEqual([workers[800], workers[900], workers[1190]], [4, 3, 2])
    assert.equal(workers[1300], 0) // there has been no task for so long that nothing is known of any
  })

  it('are none for a single burst, for rare bursts, and if few tasks are late', () => {
    for (const bursts of [every(100, 1, 100), every(400, 3, 100), every(100, 9, 3)])
      assert.ok(learnt(bursts).every(workers => workers === 0))
  })

  it('are never more than the maximum, and at most three more at once', () => {
    const gapsAndLates = fc.array(fc.record({ gap: fc.integer({ min: 5, max: 400 }), late: fc.nat(100) }), {
      minLength: 1,
      maxLength: 20,
    })
    fc.assert(
      fc.property(gapsAndLates, gaps => {
        const bursts: Burst[] = []
        for (const { gap, late } of gaps)
          bursts.push({ at: (bursts.at(-1)?.at ?? 0) + gap, tasks: 100, late })
        const all = learnt(bursts)
        for (const [second, workers] of all.entries()) {
          const more = workers - (all[second - 1] ?? 0)
          assert.ok(workers >= 0 && workers <= 10 && more >= -1 && more <= 3, `${more} more, ${workers}`)
        }
      }),
    )
  })
})
